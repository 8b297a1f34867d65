r"""Linear bounds by autograd: functions whose backward pass replaces them by a plane below or above.

A backward pass through a network multiplies coefficients v of a layer's outputs by its derivative. Here a
nonlinear layer f(z) is left by w = v a where v is positive and v c where it is negative, with planes
a z + b <= f(z) <= c z + d. The gradient at the image is then that of a linear lower bound of the network,
and the gradient at an anchor, one number per image, is its offset; biases, sums and linear layers
come out of autograd by themselves (Zhang et al., CROWN, 2018; Xu et al., 2020).

Rounding lowers the offset. A layer computed as \( y = W z + b + e \) and a pass back computed as
\( w = W^T v + e' \) shift the bound by \( v \cdot e \) and \( e' \cdot (z' - z) \), z' the layer's input for
another image. Both are at most \( |v| \cdot \gamma (|W| |z| + |b|) \), which `rounded` subtracts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from soar.bounds.activations import Lines
from soar.bounds.interval import Interval, rounding


def relaxed(value: Tensor, z: Tensor, lines: Lines, anchor: Tensor) -> Tensor:
    """Return an activation whose backward pass is that of its lines.

    Args:
        value: the activation at the image
        z: its input there
        lines: below and above it
        anchor: one number per image, in float64, whose gradient is the offset
    """
    return _Relaxed.apply(value, anchor, *lines, z)  # type: ignore[no-untyped-call, no-any-return]


def rounded(value: Tensor, room: Tensor, anchor: Tensor) -> Tensor:
    """Return a tensor whose backward pass subtracts what rounding may change it by.

    Args:
        value: the tensor at the image
        room: how much each entry may be off
        anchor: one number per image, in float64, whose gradient is the offset
    """
    return _Rounded.apply(value, anchor, room)  # type: ignore[no-untyped-call, no-any-return]


def product(x: Tensor, y: Tensor, ends: Sequence[Tensor], anchor: Tensor) -> Tensor:
    """Return the product of two tensors, whose backward pass is that of planes below and above it.

    Args:
        x: the first tensor at the image
        y: the second, of the same shape
        ends: the lower and upper ends of the first, then those of the second
        anchor: one number per image, in float64, whose gradient is the offset
    """
    return _Product.apply(anchor, x, y, *ends)  # type: ignore[no-untyped-call, no-any-return]


def max_pooled(z: Tensor, inputs: Interval, options: dict[str, Any], anchor: Tensor) -> Tensor:
    """Return the largest entries of windows, whose backward pass is that of planes below and above them.

    Args:
        z: the tensor at the image
        inputs: its interval
        options: of `max_pool2d`
        anchor: one number per image, in float64, whose gradient is the offset
    """
    return _MaxPool.apply(anchor, z, *inputs[:2], options)  # type: ignore[no-untyped-call, no-any-return]


class _Relaxed(torch.autograd.Function):
    """An entrywise function of one tensor."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, _anchor: Tensor, *parts: Tensor) -> Tensor:
        ctx.save_for_backward(value, *parts)
        return value.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        (v,) = gradients
        value, a, b, c, d, z = ctx.saved_tensors
        positive, negative = v.clamp(min=0), v.clamp(max=0)
        w = positive * a + negative * c
        offset = _summed(positive * b, negative * d, w * z, -v * value)
        return None, offset, None, None, None, None, w


class _Rounded(torch.autograd.Function):
    """The identity, but for rounding."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, _anchor: Tensor, room: Tensor) -> Tensor:
        ctx.save_for_backward(room)
        return value.view_as(value)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        (v,) = gradients
        (room,) = ctx.saved_tensors
        return v, _summed(-v.abs() * room), None


class _Product(torch.autograd.Function):
    """The product of two tensors, entry by entry, between the planes of McCormick (1976)."""

    @staticmethod
    def forward(ctx: Any, _anchor: Tensor, x: Tensor, y: Tensor, *ends: Tensor) -> Tensor:
        ctx.save_for_backward(x, y, *ends)
        return x * y

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        (v,) = gradients
        x, y, x_low, x_high, y_low, y_high = ctx.saved_tensors
        positive, negative = v.clamp(min=0), v.clamp(max=0)

        def plane(at_x: Tensor, at_y: Tensor) -> Any:
            return at_x * y + at_y * x - at_x * at_y

        def chosen(first: tuple[Tensor, Tensor], second: tuple[Tensor, Tensor], *, above: bool) -> Any:
            """Return the point of the plane that is closer to the product at the image."""
            better = (plane(*first) < plane(*second)) == above
            return [torch.where(better, one, other) for one, other in zip(first, second, strict=True)]

        low_x, low_y = chosen((x_low, y_low), (x_high, y_high), above=False)
        high_x, high_y = chosen((x_low, y_high), (x_high, y_low), above=True)
        to_x, to_y = positive * low_y + negative * high_y, positive * low_x + negative * high_x
        constants = -positive * low_x * low_y, -negative * high_x * high_y
        return _summed(*constants, to_x * x, to_y * y, -v * (x * y)), to_x, to_y, None, None, None, None


class _MaxPool(torch.autograd.Function):
    """The largest entry of each window: at least any one of them, at most the largest upper end.

    Below, it is the entry with the largest lower end; above, that same entry where no other can exceed it,
    and otherwise the largest upper end.
    """

    @staticmethod
    def forward(
        ctx: Any, _anchor: Tensor, z: Tensor, lower: Tensor, upper: Tensor, options: dict[str, Any]
    ) -> Tensor:
        value: Tensor = F.max_pool2d(z, **options)
        ends, index = F.max_pool2d(lower, **options, return_indices=True)
        largest = F.max_pool2d(upper, **options)
        exact = _largest_rival(upper, index, options) <= ends
        places = index.flatten(2)
        picked = z.flatten(2).gather(2, places).reshape(value.shape)
        ctx.save_for_backward(value, picked, places, largest, exact)
        ctx.shape = z.shape
        return value

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        (v,) = gradients
        value, picked, places, largest, exact = ctx.saved_tensors
        w = torch.where(exact, v, v.clamp(min=0))
        images, channels, *rest = ctx.shape
        through = v.new_zeros(images, channels, rest[0] * rest[1])
        through = through.scatter_add(2, places, w.reshape(places.shape)).reshape(ctx.shape)
        above = torch.where(exact, 0, v.clamp(max=0) * largest)
        return _summed(above, w * picked, -v * value), through, None, None, None


def _largest_rival(upper: Tensor, index: Tensor, options: dict[str, Any]) -> Tensor:
    """Return the largest upper end in each window, that of the chosen entry left out."""
    rows, columns = _pair(options["padding"])
    shape = {name: options[name] for name in ("kernel_size", "stride", "dilation")}

    def windows(image: Tensor, outside: float) -> Tensor:
        padded = F.pad(image, (columns, columns, rows, rows), value=outside)
        return F.unfold(padded.flatten(0, 1)[:, None], **shape)

    places = torch.arange(upper[0, 0].numel(), device=upper.device, dtype=torch.float64)
    is_other = (
        windows(places.reshape(1, 1, *upper.shape[2:]), -1.0) != index.flatten(2).flatten(0, 1)[:, None]
    )
    ends = windows(upper, -torch.inf).masked_fill(~is_other, -torch.inf)
    return ends.amax(dim=1).reshape(index.shape)


def _pair(size: int | tuple[int, int]) -> tuple[int, int]:
    return (size, size) if isinstance(size, int) else size


def _summed(*terms: Tensor) -> Tensor:
    """Return the sum of all entries of all terms for each image, less what their products are rounded by."""
    total, size = terms[0], terms[0].abs()
    for term in terms[1:]:
        total, size = total + term, size + term.abs()
    less = total - rounding(total, 4) * size
    return less.reshape(len(less), -1).sum(dim=1, dtype=torch.float64)
