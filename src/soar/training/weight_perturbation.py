"""Adversarial weight perturbation (Wu et al., 2020): gradients where the weights were moved for the worse."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn


@contextmanager
def perturbed_weights(parameters: Sequence[nn.Parameter], size: float) -> Iterator[None]:
    r"""Move weights uphill along their gradients for a while, then put them back exactly as they were.

    w_l + size ||w_l|| g_l / ||g_l||  for every layer l

    Only weights of two or more dimensions move: biases and the scales of norms do not make a loss sharp.
    The gradients are used up, so that those of the perturbed weights can take their place.

    Args:
        parameters: weights with gradients of the loss in `grad`
        size: how far to move each layer, as a share of its own norm

    >>> w = nn.Parameter(torch.tensor([[3.0, 4.0]]))
    >>> w.grad = torch.tensor([[0.0, 2.0]])
    >>> with perturbed_weights([w], 0.1):
    ...     print(w.data, w.grad)
    tensor([[3.0000, 4.5000]]) None
    >>> w.data
    tensor([[3., 4.]])
    """
    moves = {w: _move(w, w.grad, size) for w in parameters if w.grad is not None and w.dim() > 1}
    before = {w: w.detach().clone() for w in moves}
    for w in parameters:
        w.grad = None
    try:
        with torch.no_grad():
            for w, move in moves.items():
                w.add_(move)
        yield
    finally:
        with torch.no_grad():
            for w, old in before.items():
                w.copy_(old)


def _move(weight: Tensor, gradient: Tensor, size: float) -> Tensor:
    # Dividing by the largest entry first keeps the squares of tiny gradients from vanishing.
    tiny = torch.finfo(gradient.dtype).tiny
    scaled = gradient / gradient.abs().max().clamp(min=tiny)
    length = torch.linalg.vector_norm(scaled).clamp(min=tiny)
    move: Tensor = size * torch.linalg.vector_norm(weight.detach()) * scaled / length
    return move
