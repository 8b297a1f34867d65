"""How functions of torch change intervals, and how each is relaxed; by name, which methods and functions share."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from soar.bounds import activations, relaxation
from soar.bounds.activations import Activation
from soar.bounds.interval import Interval, affine, plus, scaled, times
from soar.bounds.propagation import Known, Linear, Propagation, Rule


def _moving(function: Callable[..., Any]) -> Rule:
    """Return the rule of a function that moves, selects or repeats entries."""

    def rule(_: Propagation, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        known, *others = args

        def apply(tensor: Tensor) -> Any:
            return function(tensor, *others, **kwargs)

        value = apply(known.value)
        if isinstance(value, Tensor):
            return Known(value, known.interval.moved(apply))
        axes = known.interval.axes
        parts = zip(
            value,
            apply(known.interval.lower),
            apply(known.interval.upper),
            [None] * len(value) if axes is None else apply(axes),
            strict=True,
        )
        return [Known(one, Interval(*ends)) for one, *ends in parts]

    return rule


def _averaging(function: Callable[..., Tensor]) -> Rule:
    """Return the rule of a linear function that increases in every entry."""

    def rule(_: Propagation, args: Sequence[Any], kwargs: dict[str, Any]) -> Known:
        known, *others = args
        value = function(known.value, *others, **kwargs)
        terms = max(1, known.value.numel() // max(1, value.numel()))
        bound = known.interval.map(lambda tensor: function(tensor, *others, **kwargs))
        return Known(value, bound.widened(terms))

    return rule


def _nominal(mode: Propagation, value: Tensor) -> Tensor:
    """Return a value for bounds of its layer: with its gradient, unless that leads to the image for CROWN."""
    return value if mode.anchor is None else value.detach()


def _convolution(function: Callable[..., Tensor], *, transposed: bool = False) -> Rule:
    def rule(mode: Propagation, args: Sequence[Any], kwargs: dict[str, Any]) -> Known:
        known, weight, *others = args
        bias = others.pop(0) if others else kwargs.pop("bias", None)
        if isinstance(weight, Known) or isinstance(bias, Known):
            raise mode.refusal("weights that depend on the image")
        terms = (weight[:, 0] if transposed else weight[0]).numel()

        def linear(tensor: Tensor, filters: Tensor) -> Tensor:
            return function(tensor, filters, None, *others, **kwargs)

        value = linear(known.value, weight)
        bound = affine(known.interval, linear, weight, terms, _nominal(mode, value))
        if bias is not None:
            shift = bias.reshape(-1, *[1] * (weight.dim() - 2))
            value, bound = value + shift, scaled(bound, 1.0, shift)
        return Known(value, bound)

    return rule


def _linear(mode: Propagation, args: Sequence[Any], kwargs: dict[str, Any]) -> Known:
    known, weight, *others = args
    bias = others[0] if others else kwargs.get("bias")
    if isinstance(weight, Known) or isinstance(bias, Known):
        raise mode.refusal("weights that depend on the image")
    value = F.linear(known.value, weight)
    bound = affine(known.interval, F.linear, weight, weight.shape[1], _nominal(mode, value))
    if bias is not None:
        value, bound = value + bias, scaled(bound, 1.0, bias)
    mode.linear[id(value)] = Linear(known.interval, weight, bias)
    return Known(value, bound)


def _matmul(mode: Propagation, args: Sequence[Any], kwargs: dict[str, Any]) -> Known:
    known, other = args[0], args[1]
    if not isinstance(known, Known) or isinstance(other, Known) or other.dim() != 2:
        raise mode.refusal("a product of matrices that depend on the image")
    return _linear(mode, [known, other.T], kwargs)


def _batch_norm(mode: Propagation, args: Sequence[Any], kwargs: dict[str, Any]) -> Known:
    names = ("running_mean", "running_var", "weight", "bias", "training", "momentum", "eps")
    given = {**dict(zip(names, args[1:], strict=False)), **kwargs}
    known, mean, variance = args[0], given["running_mean"], given["running_var"]
    shape = (1, -1, *[1] * (known.value.dim() - 2))
    if given.get("training") or mean is None:
        # Training: all statistics are those of the images themselves; this call also updates running ones.
        with torch.no_grad():
            F.batch_norm(known.value, **{**given, "weight": None, "bias": None})
        dims = [dim for dim in range(known.value.dim()) if dim != 1]
        variance, mean = torch.var_mean(known.value, dim=dims, correction=0)
    factor = (variance + given.get("eps", 1e-5)).rsqrt()
    shift = -mean * factor
    if given.get("weight") is not None:
        factor, shift = factor * given["weight"], shift * given["weight"] + given["bias"]
    factor, shift = factor.reshape(shape), shift.reshape(shape)
    return Known(known.value * factor + shift, scaled(known.interval, factor, shift))


def _constant_batch(tensor: Tensor | float, like: Tensor) -> Any:
    return tensor.to(like) if isinstance(tensor, Tensor) else tensor


def _add(_: Propagation, args: Sequence[Any], kwargs: dict[str, Any]) -> Known:
    first, second = args[0], args[1]
    alpha = kwargs.get("alpha", 1)
    if isinstance(first, Known) and isinstance(second, Known):
        other = scaled(second.interval, float(alpha)) if alpha != 1 else second.interval
        return Known(first.value + alpha * second.value, plus(first.interval, other))
    if isinstance(second, Known):
        return Known(first + alpha * second.value, scaled(second.interval, float(alpha), first))
    return Known(first.value + alpha * second, scaled(first.interval, 1.0, alpha * second))


def _negative(known: Known) -> Known:
    bound = known.interval
    return Known(-known.value, Interval(-bound.upper, -bound.lower, bound.axes))


def _neg(_: Propagation, args: Sequence[Any], kwargs: dict[str, Any]) -> Known:
    return _negative(args[0])


def _sub(mode: Propagation, args: Sequence[Any], kwargs: dict[str, Any]) -> Known:
    first, second = args[0], args[1]
    return _add(mode, [first, _negative(second) if isinstance(second, Known) else -second], kwargs)


def _mul(mode: Propagation, args: Sequence[Any], kwargs: dict[str, Any]) -> Known:
    first, second = args[0], args[1]
    if isinstance(first, Known) and isinstance(second, Known):
        return _product(mode, first, second)
    known, factor = (first, second) if isinstance(first, Known) else (second, first)
    return Known(known.value * factor, scaled(known.interval, factor))


def _product(mode: Propagation, first: Known, second: Known) -> Known:
    if first.value is second.value:
        return _apply(mode, activations.SQUARE, first)
    bound = times(first.interval, second.interval)
    if mode.anchor is None:
        return Known(first.value * second.value, bound)
    parts = torch.broadcast_tensors(first.value, second.value, *first.interval[:2], *second.interval[:2])
    value: Tensor = relaxation.Product.apply(mode.anchor, *parts)  # type: ignore[no-untyped-call]
    return Known(value, bound)


def _div(mode: Propagation, args: Sequence[Any], kwargs: dict[str, Any]) -> Known:
    first, second = args[0], args[1]
    if kwargs.get("rounding_mode") is not None:
        raise mode.refusal("a division that rounds")
    if not isinstance(second, Known):
        return _mul(mode, [first, 1 / second], {})
    if not bool((second.interval.lower > 0).all()):
        raise mode.refusal("a division by values that may be zero")
    return _mul(mode, [first, _apply(mode, activations.RECIPROCAL, second)], {})


def _reflected(rule: Rule) -> Rule:
    return lambda mode, args, kwargs: rule(mode, [args[1], args[0]], kwargs)


def _joining(function: Callable[..., Tensor]) -> Rule:
    """Return the rule of a function that joins several tensors."""

    def rule(_: Propagation, args: Sequence[Any], kwargs: dict[str, Any]) -> Known:
        parts, *others = args
        knowns = [one if isinstance(one, Known) else Known(one, Interval(one, one)) for one in parts]
        lower, upper, value = (
            function([get(one) for one in knowns], *others, **kwargs)
            for get in (
                lambda one: one.interval.lower,
                lambda one: one.interval.upper,
                lambda one: one.value,
            )
        )
        return Known(value, Interval(lower, upper))

    return rule


def _apply(mode: Propagation, activation: Activation, known: Known) -> Known:
    """Apply an activation: relaxed where offsets are collected, as it is where they are not."""
    if mode.anchor is None:
        return Known(activation.function(known.value), activation.range(known.interval))
    inputs = known.interval if mode.refine is None else mode.refine(known)
    value = activation.function(known.value.detach())
    through = relaxation.relaxed(value, known.value, activation.lines(inputs), mode.anchor)
    return Known(through, activation.range(inputs))


def _activation(choose: Callable[..., Activation]) -> Rule:
    return lambda mode, args, kwargs: _apply(mode, choose(*args[1:], **kwargs), args[0])


def _relu(mode: Propagation, args: Sequence[Any], kwargs: dict[str, Any]) -> Known:
    (known,) = args
    if mode.anchor is None:
        return Known(F.relu(known.value), known.interval.map(F.relu))
    inputs = known.interval if mode.refine is None else mode.refine(known)
    slope = mode.slopes[len(mode.relus)] if mode.slopes else None
    mode.relus.append(inputs)
    lines = activations.relu_lines(inputs, slope)
    value = relaxation.relaxed(F.relu(known.value.detach()), known.value, lines, mode.anchor)
    return Known(value, inputs.map(F.relu))


def _max_pool(mode: Propagation, args: Sequence[Any], kwargs: dict[str, Any]) -> Known:
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
        return F.max_pool2d(tensor, **options)

    if mode.anchor is None:
        return Known(pool(known.value), known.interval.map(pool))
    inputs = known.interval if mode.refine is None else mode.refine(known)
    value = relaxation.MaxPool.apply(  # type: ignore[no-untyped-call]
        mode.anchor, known.value, *inputs[:2], options
    )
    return Known(value, inputs.map(pool))


def _dropout(mode: Propagation, args: Sequence[Any], kwargs: dict[str, Any]) -> Known:
    given = {**dict(zip(("p", "training"), args[1:], strict=False)), **kwargs}
    if given.get("training", True) and given.get("p", 0.5):
        raise mode.refusal("dropout in training mode")
    return args[0]  # type: ignore[no-any-return]


def _pow(mode: Propagation, args: Sequence[Any], kwargs: dict[str, Any]) -> Known:
    if args[1] != 2:
        raise mode.refusal(f"the power {args[1]}")
    return _apply(mode, activations.SQUARE, args[0])


def _by_formula(formula: Callable[..., Tensor], *, increasing: Callable[..., Tensor] | None = None) -> Rule:
    """Return the rule of a function that other functions make up.

    Args:
        formula: the function, written in others that have rules
        increasing: the same as torch computes it, where it increases: its ends are tighter
    """

    def rule(mode: Propagation, args: Sequence[Any], kwargs: dict[str, Any]) -> Known:
        known, *others = args
        with mode:
            result = formula(mode.follow(known), *others, **kwargs)
        found = mode.known(result)
        assert found is not None
        if increasing is None:
            return found
        bound = known.interval.map(lambda tensor: increasing(tensor, *others, **kwargs))
        return Known(found.value, bound.widened())

    return rule


def _leaky_relu(x: Tensor, negative_slope: float = 0.01) -> Tensor:
    return negative_slope * x + (1 - negative_slope) * F.relu(x)


def _clamp(x: Tensor, min: float | None = None, max: float | None = None) -> Tensor:  # noqa: A002 - torch's names
    above = x if min is None else F.relu(x - min) + min
    return above if max is None else max - F.relu(max - above)


def _hardtanh(x: Tensor, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    return _clamp(x, min_val, max_val)


def _absolute(x: Tensor) -> Tensor:
    return F.relu(x) + F.relu(-x)


def _group_norm(
    x: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    groups = x.reshape(x.shape[0], num_groups, -1)
    centered = groups - groups.mean(dim=2, keepdim=True)
    deviation = (centered.square().mean(dim=2, keepdim=True) + eps).sqrt()
    normal = (centered / deviation).reshape(x.shape)
    shape = (1, -1, *[1] * (x.dim() - 2))
    scaled_up = normal if weight is None else normal * weight.reshape(shape)
    return scaled_up if bias is None else scaled_up + bias.reshape(shape)


def _transposed(tensor: Tensor) -> Tensor:
    return tensor.mT


RULES: dict[str, Rule] = {
    **{
        name: _moving(getattr(Tensor, name))
        for name in "flatten reshape view permute transpose squeeze unsqueeze contiguous clone to float double"
        " expand repeat chunk split unflatten narrow select movedim swapaxes".split()
    },
    **dict.fromkeys(("detach", "data", "alias", "identity", "requires_grad"), _moving(lambda tensor: tensor)),
    "getitem": _moving(operator.getitem),
    "mT": _moving(_transposed),
    **{
        name: _averaging(getattr(F, name))
        for name in "avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool1d adaptive_avg_pool2d pad".split()
    },
    "mean": _averaging(torch.mean),
    "sum": _averaging(torch.sum),
    "conv1d": _convolution(F.conv1d),
    "conv2d": _convolution(F.conv2d),
    "conv3d": _convolution(F.conv3d),
    "conv_transpose2d": _convolution(F.conv_transpose2d, transposed=True),
    "linear": _linear,
    "matmul": _matmul,
    "mm": _matmul,
    "batch_norm": _batch_norm,
    "add": _add,
    "radd": _add,
    "sub": _sub,
    "rsub": _reflected(_sub),
    "mul": _mul,
    "rmul": _mul,
    "div": _div,
    "true_divide": _div,
    "rdiv": _reflected(_div),
    "rtruediv": _reflected(_div),
    "neg": _neg,
    "cat": _joining(torch.cat),
    "concat": _joining(torch.cat),
    "stack": _joining(torch.stack),
    "relu": _relu,
    "silu": _activation(lambda: activations.SILU),
    "gelu": _activation(activations.gelu),
    "softplus": _activation(activations.softplus),
    "tanh": _activation(lambda: activations.TANH),
    "sigmoid": _activation(lambda: activations.SIGMOID),
    "square": _activation(lambda: activations.SQUARE),
    "sqrt": _activation(lambda: activations.SQRT),
    "pow": _pow,
    "max_pool2d": _max_pool,
    "dropout": _dropout,
    "dropout2d": _dropout,
    "leaky_relu": _by_formula(_leaky_relu, increasing=F.leaky_relu),
    "clamp": _by_formula(_clamp, increasing=torch.clamp),
    "clamp_min": _by_formula(lambda x, least: _clamp(x, min=least), increasing=torch.clamp_min),
    "clamp_max": _by_formula(lambda x, most: _clamp(x, max=most), increasing=torch.clamp_max),
    "hardtanh": _by_formula(_hardtanh, increasing=F.hardtanh),
    "relu6": _by_formula(lambda x: _clamp(x, 0.0, 6.0), increasing=F.relu6),
    "abs": _by_formula(_absolute),
    "group_norm": _by_formula(_group_norm),
}
"""the rule of each function, by its name without underscores at either end"""
