"""What an evaluation takes as data: a split, two tensors or arrays, or anything that PyTorch loads from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader, RandomSampler
from torch.utils.data import Dataset as TorchDataset

from soar.data import Split
from soar.errors import UserError, first_line

_AT_ONCE = 256


@dataclass(frozen=True)
class Gathered:
    """All examples in memory.

    Args:
        images: uint8, or float in [0, 1]
        labels: true classes
        index: the identity of each example
    """

    images: Tensor
    labels: Tensor
    index: Tensor


Examples = (
    Split
    | tuple[Tensor, Tensor]
    | tuple[NDArray[Any], NDArray[Any]]
    | TorchDataset[Any]
    | DataLoader[Any]
    | Gathered
)


def gather(data: Examples) -> Gathered:
    """Bring examples of any kind into memory.

    What a loader gives is held in memory, so that each attack meets the same pixels. Examples are known by
    their place, which decides their random numbers; a loader that shuffles is therefore refused.

    Args:
        data: a split; images (uint8, or float in [0, 1]) and labels; or a PyTorch data set or loader of them

    Raises:
        UserError: if it is something else

    >>> x, y = torch.rand(3, 1, 2, 2), torch.tensor([1, 0, 1])
    >>> gather(torch.utils.data.TensorDataset(x, y)).labels
    tensor([1, 0, 1])
    """
    if isinstance(data, Gathered):
        return data
    if isinstance(data, Split):
        return Gathered(data.images, data.labels, data.indices)
    if isinstance(data, DataLoader | TorchDataset):
        return _numbered(*_loaded(data))
    if isinstance(data, tuple) and len(data) == 2 and all(isinstance(x, Tensor | np.ndarray) for x in data):
        return _numbered(*map(torch.as_tensor, data))
    got = f"({', '.join(type(part).__name__ for part in data)})" if isinstance(data, tuple) else ""
    raise UserError(
        f"data: got {got or type(data).__name__}, expected a split such as soar.data.load('cifar10').test,"
        " a pair (images, labels), or a torch Dataset or DataLoader"
    )


def _numbered(images: Tensor, labels: Tensor) -> Gathered:
    return Gathered(images, labels, torch.arange(len(labels)))


def _loaded(data: TorchDataset[Any] | DataLoader[Any]) -> tuple[Tensor, Tensor]:
    """Read all batches into two tensors."""
    loader = data if isinstance(data, DataLoader) else DataLoader(data, batch_size=_AT_ONCE)
    if isinstance(loader.sampler, RandomSampler):
        raise UserError(
            "data: got a loader that shuffles, expected shuffle=False;"
            " the random numbers of an example go by its place"
        )
    try:
        # A loader draws a number from the global generator, even one that does not shuffle.
        with torch.random.fork_rng(devices=[]):
            batches = [*loader]
    except Exception as error:  # anyone's data set may fail in any way
        raise UserError(f"data: the {type(data).__name__} fails ({first_line(error)})") from error
    for batch in batches:
        if not (isinstance(batch, tuple | list) and len(batch) == 2):
            raise UserError(f"data: got batches of {_kind(batch)}, expected (images, labels)")
    if not batches:
        return torch.empty(0, 1, 1, 1), torch.empty(0, dtype=torch.int64)
    images, labels = (torch.cat([torch.as_tensor(batch[k]) for batch in batches]) for k in (0, 1))
    return images, labels


def _kind(batch: Any) -> str:
    return f"{len(batch)} parts" if isinstance(batch, tuple | list) else type(batch).__name__
