"""What an evaluation takes as data: a split, two tensors or arrays, or anything that PyTorch loads from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader
from torch.utils.data import Dataset as TorchDataset

from soar.data import Split
from soar.errors import UserError, first_line
from soar.evaluation.loading import check_order, fixed_generators
from soar.inputs import check_images

_AT_ONCE = 256


@dataclass(frozen=True)
class LabeledImages:
    """Examples in memory.

    Args:
        images: uint8, or float in [0, 1]
        labels: true classes
        index: the identity of each example
    """

    images: Tensor
    labels: Tensor
    index: Tensor


Data = (
    Split
    | tuple[Tensor | NDArray[Any], Tensor | NDArray[Any]]
    | TorchDataset[Any]
    | DataLoader[Any]
    | LabeledImages
)


def gather(data: Data) -> LabeledImages:
    """Bring examples of any kind into memory.

    What a loader gives is held in memory, so that each attack meets the same pixels. Examples are known by
    their place, which decides their random numbers; a loader that shuffles is therefore refused. While a
    data set is read, the global generators of Python, NumPy and PyTorch are seeded, and put back afterwards:
    random transforms give the same pixels at every call.

    Args:
        data: a split; images (uint8, or float in [0, 1]) and labels; or a PyTorch data set or loader of them

    Raises:
        UserError: if it is something else, or images and labels cannot be evaluated

    >>> x, y = torch.rand(3, 1, 2, 2), torch.tensor([1, 0, 1])
    >>> gather(torch.utils.data.TensorDataset(x, y)).labels
    tensor([1, 0, 1])
    """
    if isinstance(data, LabeledImages):
        return data
    if isinstance(data, Split):
        found = LabeledImages(data.images, data.labels, data.indices)
    elif isinstance(data, DataLoader | TorchDataset):
        found = _numbered(*_loaded(data))
    elif isinstance(data, tuple) and len(data) == 2 and all(isinstance(x, Tensor | np.ndarray) for x in data):
        found = _numbered(_tensor(data[0], "images"), _tensor(data[1], "labels"))
    else:
        got = f"({', '.join(type(part).__name__ for part in data)})" if isinstance(data, tuple) else ""
        raise UserError(
            f"data: got {got or type(data).__name__}, expected a split such as"
            " soar.data.load('cifar10').test, a pair (images, labels), or a torch Dataset or DataLoader"
        )
    check_images(found.images, found.labels)
    if not len(found.labels):
        raise UserError("data: got no images, expected at least one")
    return found


def _tensor(given: Any, name: str) -> Tensor:
    """Turn an array into a tensor; one of objects or strings cannot become one."""
    try:
        return torch.as_tensor(given)
    except Exception as error:  # whatever PyTorch says about somebody's array
        kind = f"an array of {given.dtype}" if isinstance(given, np.ndarray) else f"a {type(given).__name__}"
        raise UserError(f"{name}: got {kind}, expected numbers ({first_line(error)})") from error


def _numbered(images: Tensor, labels: Tensor) -> LabeledImages:
    return LabeledImages(images, labels, torch.arange(len(labels) if labels.dim() else 0))


def _loaded(data: TorchDataset[Any] | DataLoader[Any]) -> tuple[Tensor, Tensor]:
    """Read all batches into two tensors."""
    loader = data if isinstance(data, DataLoader) else DataLoader(data, batch_size=_AT_ONCE)
    try:
        check_order(loader)
        with fixed_generators(loader.generator):
            batches = [*loader]
    except UserError:
        raise
    except Exception as error:  # anyone's data set may fail in any way
        raise UserError(f"data: the {type(data).__name__} fails ({first_line(error)})") from error
    for batch in batches:
        if not (isinstance(batch, tuple | list) and len(batch) == 2):
            raise UserError(f"data: got batches of {_kind(batch)}, expected (images, labels)")
    if not batches:
        return torch.empty(0, 1, 1, 1), torch.empty(0, dtype=torch.int64)
    images, labels = (
        [_tensor(batch[k], name) for batch in batches] for k, name in enumerate(("images", "labels"))
    )
    return _joined(images, "images"), _joined(labels, "labels")


def _joined(parts: list[Tensor], name: str) -> Tensor:
    shapes = {tuple(part.shape[1:]) for part in parts}
    if len(shapes) > 1:
        first, second = sorted(shapes, key=str)[:2]
        raise UserError(f"{name}: got batches of shapes {first} and {second}, expected the same for all")
    if not all(part.dim() for part in parts):
        raise UserError(f"{name}: got a single number for a batch, expected one entry for each example")
    return torch.cat(parts)


def _kind(batch: Any) -> str:
    return f"{len(batch)} parts" if isinstance(batch, tuple | list) else type(batch).__name__
