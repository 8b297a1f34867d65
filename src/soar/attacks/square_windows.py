"""The windows that the square attack changes, and how it fills them in linf."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from soar import randomness

HALVINGS = (10, 50, 200, 500, 1000, 2000, 4000, 6000, 8000)
"""after these iterations the share of pixels that a window covers is halved"""


class Windows(NamedTuple):
    """One square per example, by its first row, its first column and its side."""

    top: Tensor
    left: Tensor
    side: Tensor

    def rows(self, height: int) -> Tensor:
        """Number every row of the image from the window's first row on; -1 outside of it."""
        place, inside = _places(self.top, self.side, height)
        return place.where(inside, -1)

    def columns(self, width: int) -> Tensor:
        """Number every column of the image from the window's first column on; -1 outside of it."""
        place, inside = _places(self.left, self.side, width)
        return place.where(inside, -1)

    def mask(self, height: int, width: int) -> Tensor:
        """Return for every pixel of every example whether it lies in the window.

        >>> windows = Windows(torch.tensor([1]), torch.tensor([0]), torch.tensor([2]))
        >>> windows.mask(3, 3)[0, 0].int().tolist()
        [[0, 0, 0], [1, 1, 0], [1, 1, 0]]
        """
        _, rows = _places(self.top, self.side, height)
        _, columns = _places(self.left, self.side, width)
        return rows[:, None, :, None] & columns[:, None, None]


def place(draws: Tensor, side: Tensor, height: int, width: int) -> Windows:
    """Put a window of each example's side anywhere in the image, all places equally likely.

    The code of AutoAttack never draws the last row and column that a window could begin at.

    Args:
        draws: two uniform numbers from [0, 1) per example, with 24 random bits
        side: the side of each window
        height: of the images
        width: of the images

    >>> place(torch.tensor([[0.999, 0.0]]), torch.tensor([3]), 5, 5).top
    tensor([2])
    """
    # Whole numbers, because a product in float32 may be rounded up to a place outside of the image.
    bits = (draws * 2**24).long()
    top = bits[:, 0] * (height - side + 1) >> 24
    left = bits[:, 1] * (width - side + 1) >> 24
    return Windows(top, left, side)


def level(iteration: Tensor) -> Tensor:
    """Count how often the share has been halved before an iteration, counted from 0.

    >>> level(torch.tensor([0, 10, 11, 4999]))
    tensor([0, 0, 1, 7])
    """
    return torch.bucketize(iteration, table(HALVINGS, iteration.device))


@lru_cache(maxsize=32)
def table(numbers: tuple[int, ...], device: torch.device) -> Tensor:
    """Return a few whole numbers on a device; copying them there again and again would wait for it."""
    return torch.tensor(numbers, device=device)


def square_sides(share: float, height: int, width: int) -> tuple[int, ...]:
    """Return round(sqrt(p h w)) for every level p of the schedule, from 1 to the shorter side of the image.

    Args:
        share: p before the first halving
        height: of the images
        width: of the images

    >>> square_sides(0.8, 32, 32)
    (29, 20, 14, 10, 7, 5, 4, 3, 2, 1)
    """
    sides = (round(math.sqrt(share / 2**k * height * width)) for k in range(len(HALVINGS) + 1))
    return tuple(min(max(side, 1), height, width) for side in sides)


def signs(draws: Tensor, dtype: torch.dtype) -> Tensor:
    """Turn uniform numbers into -1 and +1."""
    return (draws >= 0.5).to(dtype).mul_(2).sub_(1)


@dataclass(frozen=True)
class LinfSquares:
    """How the square attack moves in linf: it takes all pixels of a square to the edge of the ball.

    Args:
        share: the share of the pixels that a square covers at first
        eps: radius of the ball
    """

    share: float
    eps: float

    def start(self, x: Tensor, keys: Tensor) -> Tensor:
        """Return vertical stripes: x + eps or x - eps, with one sign for every channel and column."""
        return self._edge(x, randomness.sign(keys, (x.shape[1], 1, x.shape[3]), x.dtype))

    def moves(self, keys: Tensor, iteration: Tensor, x: Tensor) -> Tensor:
        """Draw the squares of some iterations, one row per key: first row, first column, side, signs."""
        channels, height, width = x.shape[1:]
        side = table(square_sides(self.share, height, width), x.device)[level(iteration)]
        draws = randomness.uniform(keys, (2 + channels,))
        squares = torch.stack(place(draws[:, :2], side, height, width), dim=1)
        # Half precision would round the places of large images.
        return torch.cat([squares.float(), signs(draws[:, 2:], torch.float32)], dim=1)

    def propose(self, best: Tensor, x: Tensor, moves: Tensor) -> Tensor:
        """Take one square of every example to x + eps or x - eps, with one sign per channel.

        From any point of the ball, adding 2 eps s and clipping, as it is published, ends there too.
        """
        inside = Windows(*moves[:, :3].unbind(1)).mask(*x.shape[2:])
        return torch.where(inside, self._edge(x, moves[:, 3:, None, None].to(x.dtype)), best)

    def _edge(self, x: Tensor, sign: Tensor) -> Tensor:
        return torch.add(x, sign, alpha=self.eps).clamp_(0, 1)


def _places(first: Tensor, side: Tensor, length: int) -> tuple[Tensor, Tensor]:
    """Number every row or column from the window's first one on, and return which lie in the window."""
    place = torch.arange(length, device=first.device) - first[:, None]
    return place, (place >= 0) & (place < side[:, None])
