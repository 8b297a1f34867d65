"""Read the examples of an evaluation: a split, two tensors or arrays, a PyTorch dataset or loader."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice, zip_longest
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import BatchSampler, DataLoader, IterableDataset, RandomSampler, SequentialSampler
from torch.utils.data import Dataset as TorchDataset

from soar.data import Split
from soar.data.stored import StoredImages, select
from soar.errors import UserError, first_line
from soar.inputs import check_images
from soar.prediction import as_input

_AT_ONCE = 256
_NO_IMAGES = "data: got no images, expected at least one"
_SEED = 0
# A random order of two or three examples may well be the same twice.
_DRAWS = 4
# A sampler may repeat examples, but one that goes on for longer than this never ends.
_REPEATS, _AT_LEAST = 10, 1000


@dataclass(frozen=True)
class LabeledImages:
    """Examples to evaluate.

    Args:
        stored: the images, uint8 or float in [0, 1], in memory or read when indexed
        labels: true classes
        index: the identity of each example
    """

    stored: Tensor | StoredImages
    labels: Tensor
    index: Tensor

    @property
    def images(self) -> Tensor:
        """All images in memory; those that are in files are read at each call."""
        return self.stored[:]

    def subset(self, rows: Tensor | slice) -> LabeledImages:
        """Return some examples, in the order of `rows`."""
        return LabeledImages(select(self.stored, rows), self.labels[rows], self.index[rows])


class Inputs:
    """Images as a model takes them, float in [0, 1], made of those that are indexed.

    Args:
        images: uint8, or float in [0, 1]
        device: of the model
        dtype: of the model
    """

    def __init__(self, images: Tensor | StoredImages, device: torch.device, dtype: torch.dtype) -> None:
        self._images, self._device, self._dtype = images, device, dtype

    def __getitem__(self, rows: Tensor | slice | int) -> Tensor:
        return as_input(self._images[rows], self._device, self._dtype)


Data = (
    Split
    | tuple[Tensor | NDArray[Any], Tensor | NDArray[Any]]
    | TorchDataset[Any]
    | DataLoader[Any]
    | LabeledImages
)


def gather(data: Data) -> LabeledImages:
    """Take examples of any kind.

    All attacks get the same pixels: examples of a PyTorch dataset or loader are held in memory, those of a
    split are where it has them. Examples are identified by
    their position, which decides their random numbers; a loader that shuffles is therefore refused. While a
    dataset is read, the global generators of Python, NumPy and PyTorch are seeded, and restored afterward:
    random transforms give the same pixels at every call.

    Args:
        data: a split; images (uint8, or float in [0, 1]) and labels; or a PyTorch dataset or loader of them

    Raises:
        UserError: if it is something else, or images and labels cannot be evaluated

    >>> x, y = torch.rand(3, 1, 2, 2), torch.tensor([1, 0, 1])
    >>> gather(torch.utils.data.TensorDataset(x, y)).labels
    tensor([1, 0, 1])
    """
    if isinstance(data, LabeledImages):
        return data
    if isinstance(data, Split):
        found = LabeledImages(data.stored, data.labels, data.indices)
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
    if isinstance(found.stored, Tensor):
        check_images(found.stored, found.labels)
    if not len(found.labels):
        raise UserError(_NO_IMAGES)
    return found


def _tensor(given: Any, name: str) -> Tensor:
    """Turn an array into a tensor; one of objects or strings cannot become one."""
    try:
        return given if isinstance(given, Tensor) else torch.as_tensor(given, device="cpu")
    except Exception as error:  # whatever PyTorch says about somebody's array
        kind = f"an array of {given.dtype}" if isinstance(given, np.ndarray) else f"a {type(given).__name__}"
        raise UserError(f"{name}: got {kind}, expected numbers ({first_line(error)})") from error


def _numbered(images: Tensor, labels: Tensor) -> LabeledImages:
    return LabeledImages(images, labels, torch.arange(len(labels) if labels.dim() else 0, device="cpu"))


def _loaded(data: TorchDataset[Any] | DataLoader[Any]) -> tuple[Tensor, Tensor]:
    """Read all batches into two tensors."""
    loader = data if isinstance(data, DataLoader) else DataLoader(data, batch_size=_AT_ONCE)
    try:
        _check_order(loader)
        with _fixed_generators(loader.generator):
            batches = [*loader]
    except UserError:
        raise
    except Exception as error:  # anyone's dataset may fail in any way
        raise UserError(f"data: the {type(data).__name__} fails ({first_line(error)})") from error
    for batch in batches:
        if not (isinstance(batch, tuple | list) and len(batch) == 2):
            kind = f"{len(batch)} parts" if isinstance(batch, tuple | list) else type(batch).__name__
            raise UserError(f"data: got batches of {kind}, expected (images, labels)")
    if not batches:
        raise UserError(_NO_IMAGES)
    images, labels = (
        _joined([_tensor(batch[k], name) for batch in batches], name)
        for k, name in enumerate(("images", "labels"))
    )
    return images, labels


def _joined(parts: list[Tensor], name: str) -> Tensor:
    shapes = {tuple(part.shape[1:]) for part in parts}
    if len(shapes) > 1:
        first, second = sorted(shapes, key=str)[:2]
        raise UserError(f"{name}: got batches of shapes {first} and {second}, expected the same for all")
    if not all(part.dim() for part in parts):
        raise UserError(f"{name}: got a single number for a batch, expected one entry for each example")
    return torch.cat(parts)


@contextmanager
def _fixed_generators(own: torch.Generator | None = None, *, seed: int = _SEED) -> Iterator[None]:
    """Seed the global generators of Python, NumPy and PyTorch, and put them back afterward.

    Args:
        own: a generator of the loader's own, treated in the same way
        seed: what to seed them with
    """
    # Before CUDA is in use, seeding it would only be noted, and done when it is: a trace.
    devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()
    python, numpy = random.getstate(), np.random.get_state()
    kept = None if own is None else own.get_state()
    try:
        with torch.random.fork_rng(devices=list(devices)):
            torch.default_generator.manual_seed(seed)
            if devices:
                torch.cuda.manual_seed_all(seed)
            random.seed(seed)
            np.random.seed(seed)
            if own is not None:
                own.manual_seed(seed)
            yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)
        if own is not None and kept is not None:
            own.set_state(kept)


def _check_order(loader: DataLoader[Any]) -> None:
    """Refuse a loader whose order of examples depends on a random generator; no example is loaded.

    Args:
        loader: anyone's; that of an iterable dataset has no order to look at

    Raises:
        UserError: if it shuffles, or its sampler never ends
    """
    if isinstance(loader.dataset, IterableDataset):
        return
    if isinstance(loader.sampler, RandomSampler):
        raise UserError(
            "data: got a loader that shuffles, expected shuffle=False;"
            " the random numbers of an example depend on its position"
        )
    sampler = loader.sampler if loader.batch_sampler is None else loader.batch_sampler
    inner = sampler.sampler if type(sampler) is BatchSampler else sampler
    if type(inner) is SequentialSampler:
        return
    name = type(inner).__name__
    most = _REPEATS * len(loader.dataset) + _AT_LEAST  # type: ignore[arg-type]
    with _fixed_generators():
        first = list(islice(iter(sampler), most))
    if len(first) == most:
        raise UserError(
            f"data: got a loader whose {name} goes on after {most:,} draws, expected one that ends"
        )
    for seed in range(1, _DRAWS):
        with _fixed_generators(seed=seed):
            if any(one != other for one, other in zip_longest(first, islice(iter(sampler), most))):
                raise UserError(
                    f"data: got a loader whose {name} draws another order each time, expected the same order"
                    " at every call; the random numbers of an example depend on its position"
                )
