"""Rules of nonlinear functions: intervals alone, or planes around them where offsets are collected."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from soar.bounds import activations, relaxation
from soar.bounds.activations import Activation
from soar.bounds.interval import Interval, times
from soar.bounds.linear import times_and_plus
from soar.bounds.propagation import Known, Propagation, Rule


def activation(choose: Callable[..., Activation]) -> Rule:
    """Return the rule of a smooth activation, chosen by the further arguments of the call."""
    return lambda mode, args, kwargs: apply(mode, choose(*args[1:], **kwargs), args[0])


def apply(mode: Propagation, function: Activation, known: Known) -> Known:
    """Apply a smooth activation."""
    if mode.anchor is None:
        return Known(function.function(known.value), function.range(known.interval))
    inputs = mode.tightened(known)
    bound = function.range(inputs)
    value = function.function(known.value.detach())
    through = relaxation.relaxed(value, known.value, function.lines(inputs), mode.anchor)
    return _counted(mode, through, bound)


def relu(mode: Propagation, args: Sequence[Any], _: dict[str, Any]) -> Known:
    """Apply a ReLU."""
    (known,) = args
    if mode.anchor is None:
        return Known(F.relu(known.value), known.interval.map(F.relu))
    inputs = mode.tightened(known)
    alpha = mode.alphas[len(mode.relus)] if mode.alphas else None
    mode.relus.append(inputs)
    lines = activations.relu_lines(inputs, alpha)
    value = relaxation.relaxed(F.relu(known.value.detach()), known.value, lines, mode.anchor)
    return _counted(mode, value, inputs.map(F.relu))


def max_pool(mode: Propagation, args: Sequence[Any], kwargs: dict[str, Any]) -> Known:
    """Take the largest entry of each window."""
    names = ("kernel_size", "stride", "padding", "dilation", "ceil_mode", "return_indices")
    given = {**dict(zip(names, args[1:], strict=False)), **kwargs}
    known, size = args[0], given["kernel_size"]
    if given.get("return_indices") or given.get("ceil_mode"):
        raise mode.refusal("max pooling with return_indices or ceil_mode")
    options = {
        "kernel_size": size,
        "stride": given.get("stride") or size,
        "padding": given.get("padding", 0),
        "dilation": given.get("dilation", 1),
    }

    def pool(tensor: Tensor) -> Tensor:
        pooled: Tensor = F.max_pool2d(tensor, **options)
        return pooled

    if mode.anchor is None:
        return Known(pool(known.value), known.interval.map(pool))
    inputs = mode.tightened(known)
    value = relaxation.max_pooled(known.value, inputs, options, mode.anchor)
    area = F.unfold(torch.zeros(1, 1, 64, 64, device="cpu"), size).shape[1]
    return Known(mode.counted(value, lambda: pool(inputs.size), area), inputs.map(pool))


def adaptive_max_pool(mode: Propagation, args: Sequence[Any], kwargs: dict[str, Any]) -> Known:
    """Take the largest entry of each of so many equal windows."""
    known, given = args[0], args[1] if len(args) > 1 else kwargs["output_size"]
    wanted = [given, given] if isinstance(given, int) else list(given)
    sizes = [size // (count or size) for size, count in zip(known.value.shape[2:], wanted, strict=True)]
    if any(size % (count or size) for size, count in zip(known.value.shape[2:], wanted, strict=True)):
        raise mode.refusal("adaptive max pooling to a size that does not divide the input's")
    return max_pool(mode, [known, tuple(sizes)], {"return_indices": kwargs.get("return_indices", False)})


def multiply(mode: Propagation, args: Sequence[Any], _: dict[str, Any]) -> Known:
    """Multiply entry by entry."""
    first, second = args[0], args[1]
    if not isinstance(first, Known):
        return times_and_plus(mode, second, first)
    if not isinstance(second, Known):
        return times_and_plus(mode, first, second)
    if first.value is second.value:
        return apply(mode, activations.SQUARE, first)
    bound = times(first.interval, second.interval)
    if mode.anchor is None:
        return Known(first.value * second.value, bound)
    x, y, *ends = torch.broadcast_tensors(
        first.value, second.value, *first.interval[:2], *second.interval[:2]
    )
    value = relaxation.product(x, y, ends, mode.anchor)
    copies = value.numel() // max(1, min(first.value.numel(), second.value.numel()))
    size = first.interval.size * second.interval.size
    return Known(mode.counted(value, lambda: size, 8 + copies), bound)


def divide(mode: Propagation, args: Sequence[Any], kwargs: dict[str, Any]) -> Known:
    """Divide by what does not depend on the image, or is positive."""
    first, second = args[0], args[1]
    if kwargs.get("rounding_mode") is not None:
        raise mode.refusal("a division that rounds")
    if not isinstance(second, Known):
        return times_and_plus(mode, first, 1 / second)
    if not bool((second.interval.lower > 0).all()):
        raise mode.refusal("a division by values that may be zero")
    return multiply(mode, [first, apply(mode, activations.RECIPROCAL, second)], {})


def dropout(mode: Propagation, args: Sequence[Any], kwargs: dict[str, Any]) -> Known:
    """Do nothing, as dropout does in eval mode."""
    given = {**dict(zip(("p", "training"), args[1:], strict=False)), **kwargs}
    if given.get("training", True) and given.get("p", 0.5):
        raise mode.refusal("dropout in training mode")
    known: Known = args[0]
    return known


def power(mode: Propagation, args: Sequence[Any], _: dict[str, Any]) -> Known:
    """Square."""
    if args[1] != 2:
        raise mode.refusal(f"the power {args[1]}")
    return apply(mode, activations.SQUARE, args[0])


def square_root(mode: Propagation, args: Sequence[Any], _: dict[str, Any]) -> Known:
    """Take the square root of positive values."""
    if not bool((args[0].interval.lower > 0).all()):
        raise mode.refusal("a square root of values that may be zero")
    return apply(mode, activations.SQRT, args[0])


def _counted(mode: Propagation, value: Tensor, bound: Interval) -> Known:
    """Return a tensor whose coefficients may be added up from a few later uses."""
    return Known(mode.counted(value, lambda: bound.size, 6), bound)
