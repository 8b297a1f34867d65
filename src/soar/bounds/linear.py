"""Rules of linear functions: what they do to intervals, and the rounding of what they add up."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from soar.bounds.interval import Interval, affine, plus, scale_of, scaled
from soar.bounds.propagation import Known, Linear, Propagation, Rule


def moving(function: Callable[..., Any], *, repeats: bool = False) -> Rule:
    """Return the rule of a function that moves or selects entries.

    Args:
        function: the function
        repeats: whether it may use an entry more than once
    """

    def rule(mode: Propagation, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        known, *others = args

        def apply(tensor: Tensor) -> Any:
            return function(tensor, *others, **kwargs)

        inputs = known.interval._replace(axes=None) if repeats else known.interval
        values = apply(known.value)
        if isinstance(values, Tensor):
            return _moved(mode, known, values, inputs.moved(apply))
        axes = [None] * len(values) if inputs.axes is None else apply(inputs.axes)
        parts = zip(values, apply(inputs.lower), apply(inputs.upper), axes, strict=True)
        return [_moved(mode, known, value, Interval(*ends)) for value, *ends in parts]

    return rule


def _moved(mode: Propagation, known: Known, value: Tensor, bound: Interval) -> Known:
    copies = value.numel() // max(1, known.value.numel())
    return Known(mode.counted(value, lambda: bound.size, 2 + copies), bound)


def averaging(function: Callable[..., Tensor]) -> Rule:
    """Return the rule of a linear function that increases in every entry."""

    def rule(mode: Propagation, args: Sequence[Any], kwargs: dict[str, Any]) -> Known:
        known, *others = args

        def apply(tensor: Tensor) -> Tensor:
            return function(tensor, *others, **kwargs)

        value, bound = apply(known.value), known.interval.map(apply)
        window = 1
        if function.__name__.startswith("avg_pool"):
            window = kwargs.get("kernel_size", others[0] if others else 1)
        area = window ** (value.dim() - 2) if isinstance(window, int) else math.prod(window)
        # Adaptive windows overlap by up to one entry at either end.
        terms = max(area, 4 * known.value.numel() // max(1, value.numel()), 4)
        return Known(
            mode.counted(value, lambda: apply(known.interval.size).abs(), 2 * terms), bound.widened(terms)
        )

    return rule


def convolution(function: Callable[..., Tensor], *, transposed: bool = False) -> Rule:
    """Return the rule of a convolution."""

    def rule(mode: Propagation, args: Sequence[Any], kwargs: dict[str, Any]) -> Known:
        known, weight, *others = args
        bias = others.pop(0) if others else kwargs.pop("bias", None)
        if not isinstance(known, Known) or isinstance(weight, Known) or isinstance(bias, Known):
            raise mode.refusal("weights that depend on the image")
        groups = kwargs.get("groups", others[3] if len(others) > 3 else 1)
        into, out_of = weight[0].numel(), weight[:, 0].numel() // groups
        terms = weight[:, 0].numel() // groups if transposed else into

        def linear(tensor: Tensor, filters: Tensor) -> Tensor:
            return function(tensor, filters, None, *others, **kwargs)

        value = linear(known.value, weight)
        bound = affine(known.interval, linear, weight, terms, value.detach())
        shift = None if bias is None else bias.reshape(-1, *[1] * (weight.dim() - 2))
        if shift is not None:
            value, bound = value + shift, scaled(bound, 1.0, shift)

        def size() -> Tensor:
            whole = linear(known.interval.size, weight.abs())
            return whole if shift is None else whole + shift.abs()

        return Known(mode.counted(value, size, into + out_of + 2), bound)

    return rule


def linear(mode: Propagation, args: Sequence[Any], kwargs: dict[str, Any]) -> Known:
    """Apply a linear layer."""
    known, weight, *others = args
    bias = others[0] if others else kwargs.get("bias")
    if not isinstance(known, Known) or isinstance(weight, Known) or isinstance(bias, Known):
        raise mode.refusal("weights that depend on the image")
    value = F.linear(known.value, weight)
    bound = affine(known.interval, F.linear, weight, weight.shape[1], value.detach())
    if bias is not None:
        value, bound = value + bias, scaled(bound, 1.0, bias)

    def size() -> Tensor:
        return F.linear(known.interval.size, weight.abs(), None if bias is None else bias.abs())

    return Known(
        mode.counted(value, size, sum(weight.shape) + 2), bound, Linear(known.interval, weight, bias)
    )


def matmul(mode: Propagation, args: Sequence[Any], kwargs: dict[str, Any]) -> Known:
    """Multiply by a matrix from the right."""
    known, other = args[0], args[1]
    if not isinstance(known, Known) or isinstance(other, Known) or other.dim() != 2:
        raise mode.refusal("a product of matrices that depend on the image, or not from the right")
    return linear(mode, [known, other.T], kwargs)


def batch_norm(mode: Propagation, args: Sequence[Any], kwargs: dict[str, Any]) -> Known:
    """Normalize channels by running statistics; in training mode, by those of the images themselves."""
    names = ("running_mean", "running_var", "weight", "bias", "training", "momentum", "eps")
    given = {**dict(zip(names, args[1:], strict=False)), **kwargs}
    known, mean, variance = args[0], given["running_mean"], given["running_var"]
    if mean is None:
        raise mode.refusal("batch norm without running statistics")
    if given.get("training"):
        if mode.anchor is not None:
            raise mode.refusal("batch norm in training mode")
        # This call also updates the running statistics.
        with torch.no_grad():
            F.batch_norm(known.value, **{**given, "weight": None, "bias": None})
        dims = [dim for dim in range(known.value.dim()) if dim != 1]
        variance, mean = torch.var_mean(known.value, dim=dims, correction=0)
    factor = (variance + given.get("eps", 1e-5)).rsqrt()
    if given.get("weight") is not None:
        factor = factor * given["weight"]
    shift, magnitude = -mean * factor, (mean * factor).abs()
    if given.get("bias") is not None:
        shift, magnitude = shift + given["bias"], magnitude + given["bias"].abs()
    shape = (1, -1, *[1] * (known.value.dim() - 2))
    factor, shift, magnitude = (one.reshape(shape) for one in (factor, shift, magnitude))
    value = mode.counted(known.value * factor + shift, lambda: scale_of(known.interval, factor, magnitude), 4)
    return Known(value, scaled(known.interval, factor, shift, magnitude))


def add(mode: Propagation, args: Sequence[Any], kwargs: dict[str, Any]) -> Known:
    """Add `alpha` times the second to the first."""
    first, second = args[0], args[1]
    alpha = float(kwargs.get("alpha", 1))
    if isinstance(first, Known) and isinstance(second, Known):
        other = second.interval if alpha == 1 else scaled(second.interval, alpha)
        value = first.value + alpha * second.value
        copies = value.numel() // max(1, min(first.value.numel(), second.value.numel()))
        counted = mode.counted(value, lambda: first.interval.size + other.size, 3 + copies)
        return Known(counted, plus(first.interval, other))
    if isinstance(second, Known):
        return times_and_plus(mode, second, alpha, first)
    return times_and_plus(mode, first, 1.0, second if alpha == 1 else alpha * second)


def times_and_plus(
    mode: Propagation, known: Known, factor: Tensor | float, shift: Tensor | float = 0.0
) -> Known:
    """Multiply by a factor and add a shift, which do not depend on the image."""
    value = known.value * factor + shift
    copies = value.numel() // max(1, known.value.numel())
    counted = mode.counted(value, lambda: scale_of(known.interval, factor, shift), 3 + copies)
    return Known(counted, scaled(known.interval, factor, shift))


def negative(mode: Propagation, args: Sequence[Any], _: dict[str, Any]) -> Known:
    """Change the sign."""
    return times_and_plus(mode, args[0], -1.0)


def subtract(mode: Propagation, args: Sequence[Any], kwargs: dict[str, Any]) -> Known:
    """Subtract `alpha` times the second from the first."""
    return add(mode, args, {"alpha": -kwargs.get("alpha", 1)})


def reflected(rule: Rule) -> Rule:
    """Return a rule with its first two arguments exchanged."""
    return lambda mode, args, kwargs: rule(mode, [args[1], args[0]], kwargs)


def joining(function: Callable[..., Tensor]) -> Rule:
    """Return the rule of a function that joins several tensors."""

    def rule(mode: Propagation, args: Sequence[Any], kwargs: dict[str, Any]) -> Known:
        parts, *others = args
        knowns = [one if isinstance(one, Known) else Known(one, Interval(one, one)) for one in parts]

        def join(tensors: list[Tensor]) -> Tensor:
            return function(tensors, *others, **kwargs)

        lower, upper = (join([one.interval[end] for one in knowns]) for end in (0, 1))  # type: ignore[misc]
        bound = Interval(lower, upper)
        value = join([one.value for one in knowns])
        return Known(mode.counted(value, lambda: bound.size, 2), bound)

    return rule
