r"""Convolution whose double backward costs what the arithmetic costs.

Penalties on input gradients differentiate a backward pass. For a convolution that pass, from the gradient of
the output to the gradient of the input, is bilinear in (gradient of the output, weight). Its own derivatives
are therefore an ordinary convolution and an ordinary weight gradient, for which there are well-tuned kernels:

    backward         g_x = C^T(g_y, w)
    gradient by g_y  C(t, w), where t is the tangent that comes in
    gradient by w    the weight gradient for the input t and the output gradient g_y

PyTorch's own formula gets the second one from a convolution of unusual shape, which is slow on CPUs. So is
its weight gradient for maps of few positions, where one product of matrices does the same.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

# Up to so many positions of the output, unfolding the input costs less than the usual kernel wastes.
_SMALL_MAP = 16


class Geometry(NamedTuple):
    """How a convolution moves over the image."""

    stride: list[int]
    padding: list[int]
    dilation: list[int]
    groups: int


def convolve(
    x: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
    **others: Any,
) -> Tensor | None:
    """Return `torch.conv2d` of the same arguments, differentiated fast, or None for PyTorch to do it."""
    is_ordinary = isinstance(x, Tensor) and x.dim() == 4 and x.is_floating_point() and not others
    if not is_ordinary or isinstance(padding, str) or torch.is_autocast_enabled(x.device.type):
        return None
    geometry = Geometry(_pair(stride), _pair(padding), _pair(dilation), groups)
    result: Tensor = _Convolution.apply(x, weight, bias, geometry)  # type: ignore[no-untyped-call]
    return result


class _Convolution(torch.autograd.Function):
    """y = C(x, w) + b."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, geometry: Geometry) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.save_for_forward(weight)
        ctx.geometry = geometry
        ctx.bias_sizes = None if bias is None else list(bias.shape)
        return torch.conv2d(x, weight, bias, *geometry)

    @staticmethod
    def jvp(ctx: Any, *tangents: Tensor) -> Tensor:
        (weight,) = ctx.saved_tensors
        along: Tensor = _Convolution.apply(tangents[0], weight, None, ctx.geometry)  # type: ignore[no-untyped-call]
        return along

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (gradient,) = gradients
        x, weight = ctx.saved_tensors
        wanted = ctx.needs_input_grad[:3]
        if not torch.is_grad_enabled():
            wanted = (wanted[0] and _is_needed(x), *wanted[1:])
            return (*_all_gradients(gradient, x, weight, ctx.bias_sizes, ctx.geometry, wanted), None)
        inner: Tensor | None = None
        if wanted[0]:
            inner = _InputGradient.apply(gradient, weight, x.shape, ctx.geometry)  # type: ignore[no-untyped-call]
        return inner, poison(weight), poison(gradient[0, :, 0, 0]) if wanted[2] else None, None


def _is_needed(x: Tensor) -> bool:
    """Return whether the gradient of images, or of the copy that a model was handed, is still needed."""
    made_by: Any = x.grad_fn
    if made_by is None or made_by.name() != "CloneBackward0":
        return x.requires_grad
    leaf: Tensor | None = getattr(made_by.next_functions[0][0], "variable", None)
    return leaf is None or leaf.requires_grad


def poison(like: Tensor) -> Tensor:
    """Return NaN in place of a gradient that was not computed, so that using it is noticed.

    It costs nothing unless it is used: one number stands for all.

    Args:
        like: has the shape and the type of the gradient

    >>> poison(torch.zeros(2))
    tensor([nan, nan])
    """
    return torch.full((), torch.nan, dtype=like.dtype, device=like.device).expand_as(like)


class _InputGradient(torch.autograd.Function):
    """g_x = C^T(g_y, w), the backward of a convolution to its input."""

    @staticmethod
    def forward(ctx: Any, gradient: Tensor, weight: Tensor, shape: torch.Size, geometry: Geometry) -> Tensor:
        ctx.save_for_backward(gradient, weight)
        ctx.geometry = geometry
        # Only the shape of the input matters here, so one number stands for all of it.
        input_like = gradient.new_empty(1).expand(shape)
        found, _, _ = _all_gradients(gradient, input_like, weight, None, geometry, (True, False, False))
        assert found is not None
        return found

    @staticmethod
    def backward(ctx: Any, *tangents: Tensor) -> tuple[Tensor | None, ...]:
        (tangent,) = tangents
        gradient, weight = ctx.saved_tensors
        by_gradient, by_weight = ctx.needs_input_grad[:2]
        forward: Tensor | None = None
        if torch.is_grad_enabled():
            if by_gradient:
                forward = _Convolution.apply(tangent, weight, None, ctx.geometry)  # type: ignore[no-untyped-call]
            return forward, poison(weight), None, None
        if by_gradient:
            forward = torch.conv2d(tangent, weight, None, *ctx.geometry)
        only_weight = (False, by_weight, False)
        _, by_w, _ = _all_gradients(gradient, tangent, weight, None, ctx.geometry, only_weight)
        return forward, by_w, None, None


def _all_gradients(
    gradient: Tensor,
    x: Tensor,
    weight: Tensor,
    bias_sizes: list[int] | None,
    geometry: Geometry,
    wanted: tuple[bool, bool, bool],
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """Compute the gradients that are wanted, each by the kernel that is fast for it."""
    stride, padding, dilation, groups = geometry
    by_matrix = wanted[1] and _is_small_map(gradient, x, geometry)
    asked = [wanted[0], wanted[1] and not by_matrix, wanted[2]]
    found: list[Tensor | None] = [None, None, None]
    if any(asked):
        found = torch.ops.aten.convolution_backward(
            gradient, x, weight, bias_sizes, stride, padding, dilation, False, [0, 0], groups, asked
        )
    by_x, by_weight, by_bias = (one if is_asked else None for one, is_asked in zip(found, asked, strict=True))
    return by_x, _matrix_weight_gradient(gradient, x, weight, geometry) if by_matrix else by_weight, by_bias


def _is_small_map(gradient: Tensor, x: Tensor, geometry: Geometry) -> bool:
    is_plain = geometry.groups == 1 and geometry.dilation == [1, 1]
    is_usual = x.device.type == "cpu" and x.is_contiguous(memory_format=torch.channels_last)
    return is_plain and is_usual and gradient[0, 0].numel() <= _SMALL_MAP


def _matrix_weight_gradient(gradient: Tensor, x: Tensor, weight: Tensor, geometry: Geometry) -> Tensor:
    """Return the weight gradient as (outputs x positions) times (positions x patches)."""
    (down, right), (top, left) = geometry.stride, geometry.padding
    outputs, channels, height, width = weight.shape
    images, _, rows, columns = gradient.shape
    padded = F.pad(x.permute(0, 2, 3, 1), (0, 0, left, left, top, top)).contiguous()
    image, row, column, _ = padded.stride()
    # A row of a patch lies in one piece: its pixels one after the other, each with all its channels.
    patches = padded.as_strided(
        (images, rows, columns, height, width * channels), (image, down * row, right * column, row, 1)
    )
    by_position = gradient.permute(0, 2, 3, 1).reshape(-1, outputs)
    product = by_position.t() @ patches.reshape(len(by_position), -1)
    return product.view(outputs, height, width, channels).permute(0, 3, 1, 2)


def _pair(number: int | tuple[int, ...] | list[int]) -> list[int]:
    return [number, number] if isinstance(number, int) else list(number) * (1 if len(number) == 2 else 2)
