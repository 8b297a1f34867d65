"""A free alarm for one-step training: whether the input gradient turned between start and attacked point."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def cosine(one: Tensor, other: Tensor) -> Tensor:
    """Return the cosine between two gradients, example by example; 0 where one of them is zero.

    Args:
        one: gradients by the pixels, of any length
        other: gradients of the same shape

    >>> cosine(torch.tensor([[1e-30, 0.0], [1.0, 1.0]]), torch.tensor([[2.0, 0.0], [0.0, 0.0]]))
    tensor([1., 0.])
    """
    one, other = _comparable(one), _comparable(other)
    lengths = torch.linalg.vector_norm(one, dim=1) * torch.linalg.vector_norm(other, dim=1)
    # Division by 1 where a gradient is zero keeps the derivative finite, too.
    cosines: Tensor = (one * other).sum(dim=1) / lengths.masked_fill(lengths == 0, 1)
    return cosines


def watched(points: Tensor, gradient: Tensor) -> tuple[Tensor, Tensor]:
    r"""Return attacked points to compute the loss at, and a metric that its backward pass fills.

    mean_i cos( g_i, g_i' ),  g at the start where the step was taken, g' of the training loss at x'

    A step follows a gradient that should still hold where it ends. When the cosine falls toward 0, the loss
    has become curved within the step, and training at its end teaches nothing about the points before
    (catastrophic overfitting). The second gradient is part of the training step's backward pass, so it costs
    no pass; until then the metric is NaN.

    Args:
        points: where the step ended
        gradient: of the loss at the start, one per example
    """
    points = points.detach().requires_grad_()
    metric = points.new_full((), math.nan)

    def fill(further: Tensor) -> None:
        metric.copy_(cosine(gradient, further.detach()).mean())

    points.register_hook(fill)
    return points, metric


def _comparable(gradient: Tensor) -> Tensor:
    """Return one row per example with a largest entry of 1, because squares of tiny gradients vanish."""
    rows = gradient.flatten(1)
    largest = rows.detach().abs().amax(dim=1, keepdim=True)
    return rows / largest.clamp(min=torch.finfo(rows.dtype).tiny)
