"""The patterns of the square attack in l2, and how it moves them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from soar import randomness
from soar.attacks.square_windows import Windows, level, place, signs, square_sides, table
from soar.shapes import per_example

_TINY = 1e-12
_TILES = 5


def odd_sides(share: float, height: int, width: int) -> tuple[int, ...]:
    """Return the sides of windows with a pattern: at least 3 and odd, if the image is large enough.

    >>> odd_sides(0.8, 32, 32)
    (29, 21, 15, 11, 7, 5, 5, 3, 3, 3)
    """
    sides = (max(side, 3) for side in square_sides(share, height, width))
    return tuple(min(side + 1 - side % 2, height, width) for side in sides)


def lobe(height: int, width: int, order: int = 2) -> Tensor:
    r"""Return a bump of length 1: nested squares around the middle, the k-th weighted 1 / (k + 1)^2.

    A pixel at distance r from the middle, counted as a king moves, is worth \sum_{k >= r} 1 / (k + 1)^2; the
    sum ends with the first square that covers all. In l1 the weights are 1 / (k + 1)^4.

    Args:
        height: of the bump
        width: of the bump
        order: of the norm that measures the length, 2 or 1

    >>> (lobe(3, 3) / lobe(3, 3)[0, 0])[1]
    tensor([1., 5., 1.], dtype=torch.float64)
    """
    last = max(height // 2, width // 2)
    exponent = -2 if order == 2 else -4
    weights = torch.arange(1, last + 2, dtype=torch.float64, device="cpu").pow(exponent)
    worth = weights.flip(0).cumsum(0).flip(0)
    down = (torch.arange(height, device="cpu") - height // 2).abs()
    across = (torch.arange(width, device="cpu") - width // 2).abs()
    bump = worth[torch.maximum(down[:, None], across)]
    unit: Tensor = bump / torch.linalg.vector_norm(bump, ord=order)
    return unit


def two_lobes(side: int, order: int = 2) -> Tensor:
    """Return a square of length 1, in l2 or l1, with a positive bump above a negative one.

    >>> two_lobes(2)
    tensor([[ 0.1387,  0.6934],
            [-0.1387, -0.6934]], dtype=torch.float64)
    """
    above = side // 2
    pattern = -lobe(side - above, side, order)
    if above:
        pattern = torch.cat([lobe(above, side, order), pattern])
    unit: Tensor = pattern / torch.linalg.vector_norm(pattern, ord=order)
    return unit


@dataclass(frozen=True)
class L2Squares:
    """How the square attack moves in l2: it shifts the budget of the ball from one window to another.

    Args:
        share: the share of the pixels that a window covers at first
        eps: radius of the ball
    """

    share: float
    eps: float
    order: ClassVar[int] = 2

    def start(self, x: Tensor, keys: Tensor) -> Tensor:
        """Cover the image with two-lobed tiles, each turned at random, with a random sign for every channel.

        Tiles measure a fifth of the image's shorter side; what they leave uncovered is shared by both
        borders. The whole has length eps before the image is clipped.
        """
        channels, height, width = x.shape[1:]
        side = max(min(height, width) // _TILES, 1)
        down, across = height // side, width // side
        draws = randomness.uniform(keys, (1 + channels, down, across))
        draws = draws.repeat_interleave(side, dim=2).repeat_interleave(side, dim=3)
        tile = two_lobes(side, self.order).to(x.dtype).to(x.device)
        # Lying and standing tiles are the same for all channels of a tile, their signs are not.
        tiles = torch.where(draws[:, :1] < 0.5, tile.repeat(down, across), tile.T.repeat(down, across))
        delta = tiles * signs(draws[:, 1:], x.dtype)
        top, left = (height - down * side) // 2, (width - across * side) // 2
        delta = F.pad(delta, (left, width - across * side - left, top, height - down * side - top))
        return self._placed(delta, x)

    def moves(self, keys: Tensor, iteration: Tensor, x: Tensor) -> Tensor:
        """Draw the windows of some iterations, one row per key.

        A row holds the first row and column of both windows, the level, whether the pattern is upright, and a
        sign for every channel.
        """
        channels, height, width = x.shape[1:]
        at = level(iteration)
        side = table(odd_sides(self.share, height, width), x.device)[at]
        draws = randomness.uniform(keys, (5 + channels,))
        first = place(draws[:, 0:2], side, height, width)
        second = place(draws[:, 2:4], side, height, width)
        numbers = torch.stack([first.top, first.left, second.top, second.left, at, draws[:, 4] >= 0.5], dim=1)
        # Half precision would round the places of large images.
        return torch.cat([numbers.float(), signs(draws[:, 5:], torch.float32)], dim=1)

    def propose(self, best: Tensor, x: Tensor, moves: Tensor) -> Tensor:
        r"""Empty a second window and use what it held, and what was left of eps, for a first one.

        For every channel, with v the two-lobed pattern, s a sign, d_1 the perturbation d in the first window
        and d_12 that in both,

            d_1' = unit(s v + unit(d_1)) sqrt(max(eps^2 - ||d||^2, 0) / channels + ||d_12||^2)

        where d counts all channels; the rest of the second window becomes zero, the whole is brought to
        length eps and the image is clipped.
        """
        height, width = x.shape[2:]
        sides = odd_sides(self.share, height, width)
        top, left, other_top, other_left, at, is_turned = moves[:, :6].long().unbind(1)
        side = table(sides, x.device)[at]
        first, second = Windows(top, left, side), Windows(other_top, other_left, side)
        pattern = _patterns(first, 2 * at + is_turned, sides, x, self.order)
        sign = moves[:, 6:, None, None].to(x.dtype)

        inside = first.mask(height, width).to(x.dtype)
        either = torch.maximum(inside, second.mask(height, width))
        # Whole images are changed in place: fresh memory costs more than the arithmetic.
        delta = best - x
        new = delta * either
        length = self._budget(delta, self._lengths(new))
        new.mul_(inside)
        new.div_(self._lengths(new)).addcmul_(pattern, sign)
        delta.mul_(1 - either).addcmul_(new, length / self._lengths(new))
        return self._placed(delta, x)

    def _budget(self, delta: Tensor, held: Tensor) -> Tensor:
        """Return how long the new part of every channel is."""
        unused = (self.eps**2 - torch.linalg.vector_norm(delta.flatten(1), dim=1).square()).clamp(min=0)
        return (per_example(unused, delta) / delta.shape[1] + held.square()).sqrt()

    def _placed(self, delta: Tensor, x: Tensor) -> Tensor:
        """Return images moved by perturbations, which are brought into the ball."""
        return _at_length(delta, self.eps, x)

    def _lengths(self, delta: Tensor) -> Tensor:
        """Return the length of every channel, ready to divide by."""
        lengths: Tensor = torch.linalg.vector_norm(delta, ord=self.order, dim=(2, 3), keepdim=True)
        return lengths.clamp(min=_TINY)


def _at_length(delta: Tensor, eps: float, x: Tensor) -> Tensor:
    """Move the images by perturbations of length eps; the result takes the memory of the perturbations."""
    length = torch.linalg.vector_norm(delta.flatten(1), dim=1).clamp(min=_TINY)
    return delta.mul_(per_example(eps / length, x)).add_(x).clamp_(0, 1)


def _patterns(windows: Windows, which: Tensor, sides: tuple[int, ...], x: Tensor, order: int) -> Tensor:
    """Put every example's pattern where its window is, with zeros around it."""
    table = _table(sides, x.dtype, x.device, order)
    size = table.shape[-1]
    # Rows and columns outside of the window have the number -1: the last of the table, which is zero.
    rows, columns = windows.rows(x.shape[2]) % size, windows.columns(x.shape[3]) % size
    pattern = which[:, None] * size**2
    patterns = table.take((pattern + rows * size)[:, :, None] + columns[:, None])
    return patterns[:, None]


@lru_cache(maxsize=8)
def _table(sides: tuple[int, ...], dtype: torch.dtype, device: torch.device, order: int) -> Tensor:
    """Return the pattern of every side, lying and standing, with a row and a column of zeros at the end."""
    size = max(sides) + 1
    table = torch.zeros(len(sides), 2, size, size, dtype=dtype, device="cpu")
    for i, side in enumerate(sides):
        pattern = two_lobes(side, order).to(dtype)
        table[i, 0, :side, :side], table[i, 1, :side, :side] = pattern, pattern.T
    return table.to(device)
