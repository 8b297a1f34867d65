"""Activations: the range of each over an interval, and the lines between which it stays there."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from soar.bounds.interval import Interval, rounding

# Between neighbors of so many points a smooth activation bends by next to nothing.
POINTS = 16


class Lines(NamedTuple):
    r"""Lines below and above a function of one entry: \( a z + b \le f(z) \le c z + d \)."""

    lower_slope: Tensor
    lower_offset: Tensor
    upper_slope: Tensor
    upper_offset: Tensor


def no_error(inputs: Interval) -> Tensor:
    """Return 0: a function that torch computes to a few units in the last place of its value."""
    return torch.zeros_like(inputs.lower)


@dataclass(frozen=True)
class Activation:
    """A function of one entry, smooth enough to be bounded from its values at a few points.

    Args:
        function: the function
        bend: the largest absolute second derivative between two ends
        valley: where it is lowest, if it falls before and rises after; None if it rises everywhere
        falls: whether it falls everywhere
        error: what torch may be off by beyond a few units in the last place of the value
    """

    function: Callable[[Tensor], Tensor]
    bend: Callable[[Interval], Tensor]
    valley: float | None = None
    falls: bool = False
    error: Callable[[Interval], Tensor] = no_error

    def range(self, inputs: Interval) -> Interval:
        """Return the interval of the function."""
        first, second = self.function(inputs.lower), self.function(inputs.upper)
        least, most = torch.minimum(first, second), torch.maximum(first, second)
        if self.valley is None:
            least, most = (second, first) if self.falls else (first, second)
        else:
            lowest = self.function(torch.full_like(inputs.lower, self.valley))
            inside = (inputs.lower < self.valley) & (inputs.upper > self.valley)
            least = torch.where(inside, lowest, least)
        room = self.error(inputs) + rounding(least, 2) * torch.maximum(least.abs(), most.abs())
        return Interval(least - room, most + room)

    def lines(self, inputs: Interval) -> Lines:
        r"""Return two lines parallel to the chord.

        Their offsets are the extremes of f(z) - k z over `POINTS` steps of length h, and \( M h^2 / 8 \)
        more, by which a function with second derivative at most M can leave the chords between its points.

        Args:
            inputs: the interval
        """
        lower, upper = inputs.lower, inputs.upper
        length = upper - lower
        values = [self.function(lower), self.function(upper)]
        # Over a tiny interval the quotient is rounding; a level line is as good there.
        slope = torch.where(length > 1e-4, (values[1] - values[0]) / length.clamp(min=1e-4), 0)
        offsets = [values[0] - slope * lower, values[1] - slope * upper]
        for k in range(1, POINTS):
            z = lower + length * (k / POINTS)
            values.append(self.function(z))
            offsets.append(values[-1] - slope * z)
        lowest, highest, size = offsets[0], offsets[0], values[0].abs()
        for offset, value in zip(offsets[1:], values[1:], strict=True):
            lowest, highest = torch.minimum(lowest, offset), torch.maximum(highest, offset)
            size = torch.maximum(size, value.abs())
        bend = self.bend(inputs)
        # Points are rounded, too: the function rises by at most this much between one and its neighbor.
        steepest = 2 * slope.abs() + bend * length
        room = rounding(lower, 2) * (size + steepest * inputs.size) + self.error(inputs)
        room = room + bend * (length / POINTS).square() / 8
        return Lines(slope, lowest - room, slope, highest + room)


def relu_lines(inputs: Interval, alpha: Tensor | None = None) -> Lines:
    r"""Return the triangle of a ReLU: the chord above, a line through 0 below.

    Source: Zhang et al., "Efficient Neural Network Robustness Certification with General Activation
    Functions", 2018.

    Args:
        inputs: the interval
        alpha: the gradient below, from 0 to 1; by default 1 where the interval reaches farther up

    >>> lines = relu_lines(Interval(torch.tensor([-1.0]), torch.tensor([3.0])))
    >>> [round(float(part), 3) for part in lines]
    [1.0, 0.0, 0.75, 0.75]
    """
    lower, upper = inputs.lower, inputs.upper
    dead, alive = upper <= 0, lower >= 0
    chord = upper / (upper - lower).clamp(min=torch.finfo(lower.dtype).tiny)
    chord = torch.where(alive, 1, torch.where(dead, 0, chord))
    offset = torch.where(alive | dead, 0, -chord * lower)
    below = (upper > -lower).to(lower.dtype) if alpha is None else alpha
    below = torch.where(alive, 1, torch.where(dead, 0, below))
    # A chord whose slope is rounded down ends below the function.
    offset = offset + torch.where(alive | dead, 0, rounding(lower, 2) * inputs.size)
    return Lines(below, torch.zeros_like(lower), chord, offset)


def _constant(bend: float) -> Callable[[Interval], Tensor]:
    return lambda inputs: torch.full_like(inputs.lower, bend)


# The largest second derivatives: 1/2, 4/sqrt(27) and 1/sqrt(108), rounded up.
SILU = Activation(F.silu, _constant(0.5), valley=-1.2784645427610738)
TANH = Activation(torch.tanh, _constant(0.77))
SIGMOID = Activation(torch.sigmoid, _constant(0.0963))
SQUARE = Activation(torch.square, _constant(2.0), valley=0.0)
SQRT = Activation(torch.sqrt, lambda inputs: inputs.lower.pow(-1.5) / 4)
RECIPROCAL = Activation(torch.reciprocal, lambda inputs: 2 * inputs.lower.pow(-3), falls=True)


def gelu(approximate: str = "none") -> Activation:
    """Return GELU, exact or approximated by a hyperbolic tangent; both bend by at most sqrt(2 / pi)."""

    def error(inputs: Interval) -> Tensor:
        # 1 + erf(z) cancels where z is negative: the value is off in units of z, not of itself.
        return rounding(inputs.lower, 2) * inputs.size

    valley = -0.7517915246935646 if approximate == "none" else -0.7524614220710163
    return Activation(lambda z: F.gelu(z, approximate=approximate), _constant(0.8), valley, error=error)


def softplus(beta: float = 1.0, threshold: float = 20.0) -> Activation:
    """Return softplus, log(1 + exp(beta z)) / beta, whose curvature is at most beta / 4."""
    # Above the threshold torch leaves the identity: a step down by so much.
    step = math.log1p(math.exp(-threshold)) / beta
    return Activation(
        lambda z: F.softplus(z, beta, threshold),
        _constant(beta / 4),
        error=lambda inputs: _constant(step)(inputs),
    )
