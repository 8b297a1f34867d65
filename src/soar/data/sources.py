"""A second source of training examples, of which every batch has a fixed share (Gowal et al., 2021)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from soar import randomness
from soar.data.dataset import Split
from soar.data.stored import Pixels
from soar.errors import UserError


@dataclass(frozen=True, eq=False)
class Extra:
    """A second source of training examples.

    Args:
        split: its examples, with other indices than those of the first source
        share: of every batch, between 0 and 1
    """

    split: Split
    share: float

    def __post_init__(self) -> None:
        if not 0 < self.share < 1 or not len(self.split):
            raise UserError(
                f"data.extra.share: got {self.share} for {len(self.split)} examples, expected a share"
                " between 0 and 1, and some examples"
            )

    def count(self, batch_size: int) -> int:
        """Return how many examples of a batch are from here.

        Raises:
            UserError: if that is none or all of them
        """
        found = round(self.share * batch_size)
        if not 0 < found < batch_size:
            raise UserError(
                f"data.extra.share: got {self.share}, which is {found} of {batch_size} images in a batch,"
                " expected some of both sources (flag --data.extra.share)"
            )
        return found


def extra_rows(extra: Extra, count: int, batch_size: int, *, seed: int, epoch: int) -> Tensor:
    """Return which examples of the second source each batch of an epoch has, shape (batches, share).

    All of them are seen once, in a random order, before any is seen again, from one epoch to the next.

    Args:
        extra: the second source
        count: batches in an epoch
        batch_size: the size of a batch
        seed: the seed of the run
        epoch: the number of the epoch
    """
    each, length = extra.count(batch_size), len(extra.split)
    first = epoch * count * each
    places = torch.arange(first, first + count * each, device="cpu")
    passes = places // length
    orders = {
        int(number): randomness.permutation(randomness.key(seed, 0, "extra order", int(number)), length)[0]
        for number in passes.unique()
    }
    found = [orders[int(number)][places[passes == number] % length] for number in passes.unique()]
    return torch.cat(found).view(count, each)


def interleaved(first: Tensor, second: Tensor) -> Tensor:
    """Spread the rows of two sources evenly over each batch, so that every part of it has its share of both.

    >>> interleaved(torch.tensor([[1, 2]]), torch.tensor([[7, 8, 9, 10]]))
    tensor([[ 1,  7,  8,  2,  9, 10]])
    """
    own, other = first.shape[1], second.shape[1]
    places = torch.arange(own + other + 1, device="cpu") * other // (own + other)
    is_other = places.diff().bool()
    made = first.new_empty(len(first), own + other)
    made[:, ~is_other], made[:, is_other] = first, second
    return made


class Pool:
    """The examples of one or two sources, as if they were one without being copied.

    Args:
        splits: the sources
    """

    def __init__(self, splits: list[Split]) -> None:
        # Images that are not in memory are read when a batch needs them.
        self.read = [
            split.stored.numpy().__getitem__ if isinstance(split.stored, Tensor) else split.stored.read
            for split in splits
        ]
        self.shape = tuple(splits[0].stored.shape[1:])
        self.labels = torch.cat([split.labels for split in splits])
        self.indices = torch.cat([split.indices for split in splits])
        self.ends = np.cumsum([len(split) for split in splits])

    def images(self, rows: Tensor) -> Pixels:
        """Return a copy of some images."""
        wanted, first = rows.numpy(), self.ends[0]
        if len(self.read) == 1:
            return self.read[0](wanted)
        made = np.empty((len(wanted), *self.shape), np.uint8)
        is_first = wanted < first
        made[is_first] = self.read[0](wanted[is_first])
        made[~is_first] = self.read[1](wanted[~is_first] - first)
        return made

    def partners(self, rows: Tensor, shares: NDArray[np.float32]) -> Tensor:
        """Return a row of the same source for each row, as far into the source as its share says."""
        wanted = rows.numpy()
        source = np.searchsorted(self.ends, wanted, side="right")
        begins = np.concatenate([[0], self.ends[:-1]])[source]
        lengths = self.ends[source] - begins
        places = np.minimum((shares.astype(np.float64) * lengths).astype(np.int64), lengths - 1)
        return torch.from_numpy(begins + places)
