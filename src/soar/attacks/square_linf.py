"""How the square attack moves in linf: it takes all pixels of a square to the edge of the ball."""

from __future__ import annotations

import torch
from torch import Tensor

from soar import randomness
from soar.attacks.square_windows import level, place, signs, square_sides


def start(x: Tensor, keys: Tensor, eps: float) -> Tensor:
    """Return vertical stripes: x + eps or x - eps, with one sign for every channel and column.

    Args:
        x: images
        keys: one random key an example
        eps: radius of the ball
    """
    return _edge(x, randomness.sign(keys, (x.shape[1], 1, x.shape[3]), x.dtype), eps)


def moves(keys: Tensor, iteration: Tensor, share: float, x: Tensor) -> Tensor:
    """Draw the squares of some iterations, and a sign for every channel.

    Args:
        keys: one random key an iteration
        iteration: how many proposals came before each
        share: the share of the pixels that a square covers at first
        x: images, for their shape and type

    Returns:
        A row for every key: first row, row behind the last, first column, column behind the last, signs.
    """
    channels, height, width = x.shape[1:]
    side = torch.tensor(square_sides(share, height, width), device=x.device)[level(iteration)]
    draws = randomness.uniform(keys, (2 + channels,), torch.float64)
    top, left, _ = place(draws[:, :2], side, height, width)
    edges = torch.stack([top, top + side, left, left + side], dim=1)
    # Half precision would round the places of large images.
    return torch.cat([edges.float(), signs(draws[:, 2:], torch.float32)], dim=1)


def propose(best: Tensor, x: Tensor, moves: Tensor, share: float, eps: float) -> Tensor:  # noqa: ARG001
    """Take one square of every example to x + eps or x - eps, with one sign a channel.

    From any point of the ball, adding 2 eps s and clipping, as it is published, ends there too.

    Args:
        best: the best points so far
        x: images
        moves: one an example, from `moves`
        share: of no use here, where squares have no pattern
        eps: radius of the ball
    """
    top, bottom, left, right = moves[:, :4, None].unbind(1)
    rows = torch.arange(x.shape[2], device=x.device)
    columns = torch.arange(x.shape[3], device=x.device)
    inside = ((rows >= top) & (rows < bottom))[:, :, None] & ((columns >= left) & (columns < right))[:, None]
    return torch.where(inside[:, None], _edge(x, moves[:, 4:, None, None].to(x.dtype), eps), best)


def _edge(x: Tensor, sign: Tensor, eps: float) -> Tensor:
    return torch.add(x, sign, alpha=eps).clamp_(0, 1)
