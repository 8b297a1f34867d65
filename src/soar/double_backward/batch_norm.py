r"""Batch norm whose double backward takes a few passes over the data.

For every channel, with means E over the batch and all positions, \( \hat x = r (x - E x) \) and
\( a = \gamma r \), the backward pass to the input is

    g_x = a P g,    P g = g - E[g] - \hat x E[g \hat x]

P is symmetric, so the gradient of \( \langle v, g_x \rangle \) by g is the same kernel again, \( a P v \). So
is the derivative of the forward pass along v. The gradient by x is a sum of v, g and \( \hat x \) with one
factor per channel:

    -a r ( E[g \hat x] (v - E v) + E[v \hat x] (g - E g) + (c - 2 E[v \hat x] E[g \hat x]) \hat x )
    c = E[v g] - E[v] E[g] - E[v \hat x] E[g \hat x]

and by gamma it is r n c for the n numbers of a channel. PyTorch spells the same out in some thirty passes
and loses the layout of the images on the way.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from soar.double_backward.convolution import poison
from soar.double_backward.normalization import batch_norm


def normalize(
    x: Any,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
    **others: Any,
) -> Tensor | None:
    """Return `F.batch_norm` of the same arguments, differentiated fast, or None for PyTorch to do it.

    Only batches of images on the CPU that are normalized by their own statistics are done here; others
    normalized so are written out.
    """
    if not isinstance(x, Tensor) or others or not training:
        return None
    if torch.is_autocast_enabled(x.device.type) or x.numel() <= x.shape[1]:
        return None
    if x.dim() != 4 or weight is None or bias is None or x.device.type != "cpu":
        return batch_norm(x, running_mean, running_var, weight, bias, momentum, eps)
    running = (running_mean, running_var, momentum)
    result: Tensor = _BatchNorm.apply(x, weight, bias, running, eps)  # type: ignore[no-untyped-call]
    return result


class _BatchNorm(torch.autograd.Function):
    """y = gamma x^ + beta."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, running: tuple[Any, Any, float], eps: float
    ) -> Tensor:
        mean, variance, momentum = running
        y, batch_mean, scale = torch.native_batch_norm(x, weight, bias, mean, variance, True, momentum, eps)
        ctx.save_for_backward(x, weight, batch_mean, scale)
        ctx.save_for_forward(x, weight, batch_mean, scale)
        ctx.eps = eps
        return y

    @staticmethod
    def jvp(ctx: Any, *tangents: Tensor) -> Tensor:
        x, weight, mean, scale = ctx.saved_tensors
        along: Tensor = _InputGradient.apply(tangents[0], x, weight, mean, scale, ctx.eps)  # type: ignore[no-untyped-call]
        return along

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (gradient,) = gradients
        x, weight, mean, scale = ctx.saved_tensors
        if not torch.is_grad_enabled():
            return *_all_gradients(gradient, x, weight, mean, scale, ctx.eps), None, None
        inner = _InputGradient.apply(gradient, x, weight, mean, scale, ctx.eps)  # type: ignore[no-untyped-call]
        return inner, poison(weight), poison(weight), None, None


class _InputGradient(torch.autograd.Function):
    """g_x = a P g, the backward of batch norm to its input."""

    @staticmethod
    def forward(
        ctx: Any, gradient: Tensor, x: Tensor, weight: Tensor, mean: Tensor, scale: Tensor, eps: float
    ) -> Tensor:
        found, along, total = _all_gradients(gradient, x, weight, mean, scale, eps)
        ctx.save_for_backward(gradient, x, weight, mean, scale, along, total)
        ctx.eps = eps
        return found

    @staticmethod
    def backward(ctx: Any, *tangents: Tensor) -> tuple[Tensor | None, ...]:
        (v,) = tangents
        g, x, weight, mean, r, g_along, g_total = ctx.saved_tensors
        if torch.is_grad_enabled():
            # Here mean and r must be functions of x again. Views keep the gradient by x from going through g.
            views = (g.view_as(g), x.view_as(x), weight.view_as(weight))
            again = _spelled_out(*views, ctx.eps)
            return *torch.autograd.grad(again, views, v, create_graph=True), None, None, None
        by_gradient, v_along, v_total = _all_gradients(v, x, weight, mean, r, ctx.eps)
        count = x.numel() // x.shape[1]
        e_v, e_g, e_vx, e_gx = v_total / count, g_total / count, v_along / count, g_along / count
        c = (v * g).sum(dim=(0, 2, 3)) / count - e_v * e_g - e_vx * e_gx
        outer, bent = -weight * r * r, (c - 2 * e_vx * e_gx) * r
        shift = outer * (e_gx * e_v + e_vx * e_g + bent * mean)
        by_x = v * _channels(outer * e_gx) - _channels(shift)
        by_x.addcmul_(g, _channels(outer * e_vx)).addcmul_(x, _channels(outer * bent))
        return by_gradient, by_x, r * count * c, None, None, None


def _all_gradients(
    gradient: Tensor, x: Tensor, weight: Tensor, mean: Tensor, scale: Tensor, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    r"""Return a P g, and the sums of \( g \hat x \) and of g, which are the gradients of gamma and beta."""
    found: tuple[Tensor, Tensor, Tensor] = torch.ops.aten.native_batch_norm_backward(
        gradient, x, weight, None, None, mean, scale, True, eps, [True, True, True]
    )
    return found


def _spelled_out(g: Tensor, x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """Return a P g by operations that can be differentiated as often as one likes."""
    over = (0, 2, 3)
    centered = x - x.mean(over, keepdim=True)
    r = (centered.square().mean(over, keepdim=True) + eps).rsqrt()
    unit = centered * r
    projected = g - g.mean(over, keepdim=True) - unit * (g * unit).mean(over, keepdim=True)
    return _channels(weight) * r * projected


def _channels(values: Tensor) -> Tensor:
    return values.view(1, -1, 1, 1)
