"""ReLU whose double backward carries no zeros.

The derivative of a ReLU is constant between kinks, so its backward pass has no derivative by the activation.
PyTorch writes that derivative out as a map full of zeros, keeps it until the forward graph is reached, and
adds it there. Those maps are a part of the peak memory of gradient penalties; the time is hardly theirs.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def rectify(x: Any, inplace: bool = False, **others: Any) -> Tensor | None:
    """Return `F.relu` of the same arguments, with a lean double backward, or None for PyTorch to do it."""
    if inplace or others or not isinstance(x, Tensor):
        return None
    result: Tensor = _Rectifier.apply(x)  # type: ignore[no-untyped-call]
    return result


class _Rectifier(torch.autograd.Function):
    """y = max(x, 0)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        y = x.relu()
        ctx.save_for_backward(y)
        ctx.save_for_forward(y)
        ctx.set_materialize_grads(False)
        return y

    @staticmethod
    def jvp(ctx: Any, *tangents: Tensor) -> Tensor:
        return _mask(tangents[0], ctx.saved_tensors[0])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> Tensor | None:
        (gradient,) = gradients
        return None if gradient is None else _mask(gradient, ctx.saved_tensors[0])


class _Masked(torch.autograd.Function):
    """g_x = g_y where y > 0, else 0; linear in g_y and constant in y."""

    @staticmethod
    def forward(ctx: Any, gradient: Tensor, y: Tensor) -> Tensor:
        ctx.save_for_backward(y)
        masked: Tensor = torch.ops.aten.threshold_backward(gradient, y, 0)
        return masked

    @staticmethod
    def backward(ctx: Any, *tangents: Tensor) -> tuple[Tensor, None]:
        return _mask(tangents[0], ctx.saved_tensors[0]), None


def _mask(gradient: Tensor, y: Tensor) -> Tensor:
    """Keep the gradient where y is positive."""
    masked: Tensor = _Masked.apply(gradient, y)  # type: ignore[no-untyped-call]
    return masked
