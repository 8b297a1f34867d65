"""Linear bounds by autograd: functions whose backward pass replaces them by a plane below or above.

A backward pass through a network multiplies coefficients v of a layer's outputs by its derivative. Here a
nonlinear layer f(z) is left by w = v a where v is positive and v c where it is negative, with planes
a z + b <= f(z) <= c z + d. The gradient at the image is then the slope of a linear lower bound of the
network, and the gradient at an anchor, one number per image, is its offset; biases, sums and linear layers come
out of autograd by themselves (Zhang et al., CROWN, 2018; Xu et al., 2020).
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from soar.bounds.activations import Lines


def relaxed(value: Tensor, z: Tensor, lines: Lines, anchor: Tensor) -> Tensor:
    """Return an activation whose backward pass is that of its lines.

    Args:
        value: the activation at the image
        z: its input there
        lines: below and above it
        anchor: two numbers per image, whose gradients are the offset and its size
    """
    return _Relaxed.apply(value, anchor, *lines, z)  # type: ignore[no-untyped-call, no-any-return]


class _Relaxed(torch.autograd.Function):
    """An entrywise function of one tensor."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, anchor: Tensor, *parts: Tensor) -> Tensor:
        ctx.save_for_backward(value, *parts)
        return value.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        (v,) = gradients
        value, a, b, c, d, z = ctx.saved_tensors
        positive, negative = v.clamp(min=0), v.clamp(max=0)
        w = positive * a + negative * c
        offsets = positive * b + negative * d, w * z, -v * value
        return None, _anchored(*offsets), None, None, None, None, w


class Product(torch.autograd.Function):
    """The product of two tensors, entry by entry, between the planes of McCormick (1976)."""

    @staticmethod
    def forward(ctx: Any, anchor: Tensor, x: Tensor, y: Tensor, *ends: Tensor) -> Tensor:
        ctx.save_for_backward(x, y, *ends)
        return x * y

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        (v,) = gradients
        x, y, x_low, x_high, y_low, y_high = ctx.saved_tensors
        positive, negative = v.clamp(min=0), v.clamp(max=0)

        def plane(at_x: Tensor, at_y: Tensor) -> Tensor:
            return at_x * y + at_y * x - at_x * at_y

        def chosen(first: tuple[Tensor, Tensor], second: tuple[Tensor, Tensor], *, above: bool) -> Any:
            """Return the point of the plane that is closer to the product at the image."""
            better = (plane(*first) < plane(*second)) == above
            return [torch.where(better, one, other) for one, other in zip(first, second, strict=True)]

        low_x, low_y = chosen((x_low, y_low), (x_high, y_high), above=False)
        high_x, high_y = chosen((x_low, y_high), (x_high, y_low), above=True)
        to_x, to_y = positive * low_y + negative * high_y, positive * low_x + negative * high_x
        offsets = -positive * low_x * low_y - negative * high_x * high_y, to_x * x, to_y * y, -v * (x * y)
        return _anchored(*offsets), to_x, to_y, None, None, None, None


class MaxPool(torch.autograd.Function):
    """The largest entry of each window: at least any one of them, at most the largest upper end.

    Below, it is the entry with the largest lower end; above, that same entry where no other can exceed it,
    and otherwise the largest upper end.
    """

    @staticmethod
    def forward(
        ctx: Any, anchor: Tensor, z: Tensor, lower: Tensor, upper: Tensor, options: dict[str, Any]
    ) -> Tensor:
        value: Tensor = F.max_pool2d(z, **options)
        ends, index = F.max_pool2d(lower, **options, return_indices=True)
        largest = F.max_pool2d(upper, **options)
        exact = _largest_rival(upper, index, options) <= ends
        ctx.save_for_backward(value, z, index, largest, exact)
        return value

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        (v,) = gradients
        value, z, index, largest, exact = ctx.saved_tensors
        w = torch.where(exact, v, v.clamp(min=0))
        through = torch.zeros_like(z).flatten(2).scatter_add(2, index.flatten(2), w.flatten(2))
        picked = z.flatten(2).gather(2, index.flatten(2)).reshape(value.shape)
        offsets = torch.where(exact, 0, v.clamp(max=0) * largest), w * picked, -v * value
        return _anchored(*offsets), through.reshape(z.shape), None, None, None


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


def _anchored(*terms: Tensor) -> Tensor:
    """Return the sum of all terms for each image, and that of their absolute values, which rounding goes by."""
    sums = sum(term.flatten(1).sum(dim=1) for term in terms)
    sizes = sum(term.abs().flatten(1).sum(dim=1) for term in terms)
    return torch.stack([sums, sizes], dim=1)  # type: ignore[list-item]
