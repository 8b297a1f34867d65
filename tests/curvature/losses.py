"""Losses of small networks, and their Hessians entry by entry."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from soar import randomness
from soar.losses import cross_entropy
from tests.attacks.problems import SHAPE

D = math.prod(SHAPE)


def normal(seed: int, count: int, *shape: int) -> Tensor:
    return randomness.normal(randomness.key(seed, torch.arange(count), "test"), shape, torch.float64)


def loss_of(model: nn.Module, y: Tensor) -> Callable[[Tensor], Tensor]:
    return lambda x: cross_entropy(model(x), y)


def dense_hessian(loss: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """The Hessian of one example's loss, entry by entry."""
    flat = torch.autograd.functional.hessian(lambda v: loss(v.reshape(1, *x.shape[1:])).sum(), x.flatten())
    assert isinstance(flat, Tensor)
    return flat
