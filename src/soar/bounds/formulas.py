"""Rules of functions that others make up: they are written in those, and so relaxed by theirs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from soar.bounds.interval import Interval, both
from soar.bounds.propagation import Known, Propagation, Rule

# The interval of a function's result from that of its input and the other arguments.
Direct = Callable[..., Interval]


def by_formula(formula: Callable[..., Tensor], direct: Direct | None = None) -> Rule:
    """Return the rule of a function that other functions make up.

    Args:
        formula: the function, written in others that have rules
        direct: an interval of its own, where that of the parts is looser
    """

    def rule(mode: Propagation, args: Sequence[Any], kwargs: dict[str, Any]) -> Known:
        known, *others = args
        with mode:
            result = formula(mode.follow(known), *others, **kwargs)
        found = mode.known(result)
        assert found is not None
        if direct is None:
            return found
        return Known(found.value, both(found.interval, direct(known.interval, *others, **kwargs)))

    return rule


def increasing(function: Callable[..., Tensor]) -> Direct:
    """Return the interval of an increasing function from its ends."""
    return lambda inputs, *others, **kwargs: inputs.map(
        lambda tensor: function(tensor, *others, **kwargs)
    ).widened()


def leaky_relu(x: Tensor, negative_slope: float = 0.01) -> Tensor:
    """Add a share of the input to that of its ReLU."""
    return negative_slope * x + (1 - negative_slope) * F.relu(x)


def leaky_relu_limits(inputs: Interval, negative_slope: float = 0.01) -> Interval:
    """Return the ends of a leaky ReLU, which increases unless negative values change their sign."""
    ends = [F.leaky_relu(end, negative_slope) for end in inputs[:2]]
    if negative_slope < 0:
        ends = [torch.minimum(*ends).clamp(max=0), torch.maximum(*ends)]
    return Interval(*ends).widened()


def clamp(x: Tensor, min: float | None = None, max: float | None = None) -> Tensor:  # noqa: A002 - torch's names
    """Limit values from either side."""
    above = x if min is None else F.relu(x - min) + min
    return above if max is None else max - F.relu(max - above)


def absolute(x: Tensor) -> Tensor:
    """Add the ReLUs of both signs."""
    return F.relu(x) + F.relu(-x)


def group_norm(
    x: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    """Standardize each group of channels."""
    normal = _standardized(x.reshape(x.shape[0], num_groups, -1), eps).reshape(x.shape)
    shape = (1, -1, *[1] * (x.dim() - 2))
    return _scaled(normal, *(None if one is None else one.reshape(shape) for one in (weight, bias)))


def group_norm_limits(
    inputs: Interval,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,  # noqa: ARG001 - torch's signature
) -> Interval:
    """Return the limits of a standardized group."""
    shape = (1, -1, *[1] * (inputs.lower.dim() - 2))
    count = inputs.lower[0].numel() // num_groups
    return _limits(inputs, count, *(None if one is None else one.reshape(shape) for one in (weight, bias)))


def layer_norm(
    x: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Standardize the last dimensions."""
    whole = x.reshape(*x.shape[: x.dim() - len(normalized_shape)], -1)
    return _scaled(_standardized(whole, eps).reshape(x.shape), weight, bias)


def layer_norm_limits(
    inputs: Interval,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,  # noqa: ARG001 - torch's signature
) -> Interval:
    """Return the limits of standardized dimensions."""
    return _limits(inputs, math.prod(normalized_shape), weight, bias)


def _standardized(x: Tensor, eps: float) -> Tensor:
    """Standardize the last dimension."""
    centered = x - x.mean(dim=-1, keepdim=True)
    return centered / (centered.square().mean(dim=-1, keepdim=True) + eps).sqrt()


def _scaled(normal: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    scaled_up = normal if weight is None else normal * weight
    return scaled_up if bias is None else scaled_up + bias


def _limits(inputs: Interval, count: int, weight: Tensor | None, bias: Tensor | None) -> Interval:
    r"""Return the limits of n standardized values: none is beyond \( \sqrt{n - 1} \) deviations."""
    most = torch.full_like(inputs.lower, math.sqrt(max(count - 1, 0)))
    if weight is not None:
        most = most * weight.abs()
    middle = torch.zeros_like(inputs.lower) if bias is None else bias.expand_as(inputs.lower)
    # The deviation may be rounded down.
    return Interval(middle - most, middle + most).widened(count)
