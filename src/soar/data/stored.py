"""Images that stay where they are, in files or on disk, until a batch needs them."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from soar.data.files import check_memory

Pixels = NDArray[np.uint8]
Rows = NDArray[np.int64]
_SMALL = 256 << 20
"""bytes; what takes no more is read at once, so that nothing is decoded twice"""


class StoredImages(ABC):
    """Images of one size, read as bytes whenever some of them are asked for.

    Indexing reads, as it does for a tensor of all of them; `at` only selects. Reading is a pure function of
    the rows and may happen in several threads at once.

    Args:
        shape: the number of images, channels, height and width
    """

    dtype = torch.uint8
    ndim = 4

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = torch.Size(shape)

    @abstractmethod
    def read(self, rows: Rows) -> Pixels:
        """Return some images, in the order given, shape (len(rows), channels, height, width).

        Raises:
            UserError: if a file cannot be read, or has become another one
        """

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Tensor | slice | int) -> Tensor:
        if isinstance(rows, int):
            return self[torch.tensor([rows], device="cpu")][0]
        chosen = positions(rows, len(self))
        check_memory(len(chosen) * int(np.prod(self.shape[1:], dtype=np.int64)), f"{len(chosen)} images")
        return torch.from_numpy(self.read(chosen))

    def at(self, rows: Tensor | slice) -> StoredImages:
        """Select images without reading them."""
        return _Chosen(self, positions(rows, len(self)))


class _Chosen(StoredImages):
    """Some images of others, in an order of their own."""

    def __init__(self, source: StoredImages, rows: Rows) -> None:
        super().__init__((len(rows), *source.shape[1:]))
        self._source, self._rows = source, rows

    def read(self, rows: Rows) -> Pixels:
        return self._source.read(self._rows[rows])

    def at(self, rows: Tensor | slice) -> StoredImages:
        return _Chosen(self._source, self._rows[positions(rows, len(self))])


def positions(rows: Tensor | slice, count: int) -> Rows:
    """Return which of `count` things an index means.

    >>> positions(slice(-2, None), 5), positions(torch.tensor([True, False]), 2)
    (array([3, 4]), array([0]))
    """
    every = np.arange(count, dtype=np.int64)
    return every[rows if isinstance(rows, slice) else rows.cpu().numpy()]


def select(images: Tensor | StoredImages, rows: Tensor | slice) -> Tensor | StoredImages:
    """Return some images; those that are not in memory stay where they are."""
    return images[rows] if isinstance(images, Tensor) else images.at(rows)


def settled(images: StoredImages) -> Tensor | StoredImages:
    """Return few or small images as a tensor in memory, many or large ones as they are."""
    if int(np.prod(images.shape, dtype=np.int64)) > _SMALL:
        return images
    with warnings.catch_warnings():
        # Notes about metadata, which are not used. Threads that read batches share the list of filters, so
        # there they may show.
        warnings.simplefilter("ignore")
        return images[:]
