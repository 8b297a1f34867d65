"""Activations: the range of each over an interval, and the lines between which it stays there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from soar.bounds.interval import Interval

# Between neighbors of so many points a smooth activation bends by next to nothing.
POINTS = 16


class Lines(NamedTuple):
    r"""Lines below and above a function of one entry: \( a z + b \le f(z) \le c z + d \)."""

    lower_slope: Tensor
    lower_offset: Tensor
    upper_slope: Tensor
    upper_offset: Tensor


@dataclass(frozen=True)
class Activation:
    """A function of one entry, smooth enough to be bounded from its values at a few points.

    Args:
        function: the function
        bend: the largest absolute second derivative between two ends
        valley: where it is lowest, if it falls before and rises after; None if it rises everywhere
        falls: whether it falls everywhere
    """

    function: Callable[[Tensor], Tensor]
    bend: Callable[[Interval], Tensor]
    valley: float | None = None
    falls: bool = False

    def range(self, inputs: Interval) -> Interval:
        """Return the interval of the function."""
        ends = self.function(inputs.lower), self.function(inputs.upper)
        if self.falls:
            return Interval(ends[1], ends[0]).widened()
        if self.valley is None:
            return Interval(*ends).widened()
        lowest = self.function(torch.full_like(inputs.lower, self.valley))
        inside = (inputs.lower < self.valley) & (inputs.upper > self.valley)
        return Interval(torch.where(inside, lowest, torch.minimum(*ends)), torch.maximum(*ends)).widened()

    def lines(self, inputs: Interval) -> Lines:
        r"""Return two lines parallel to the chord.

        Their offsets are the extremes of f(z) - k z over `POINTS` steps of length h, and \( M h^2 / 8 \) more,
        by which a function with second derivative at most M can leave the chords between its points.

        Args:
            inputs: the interval
        """
        lower, upper = inputs.lower, inputs.upper
        length = upper - lower
        rise = self.function(upper) - self.function(lower)
        # Over a tiny interval the quotient is rounding; a level line is as good there.
        slope = torch.where(length > 1e-4, rise / length.clamp(min=1e-4), 0)
        lowest = highest = self.function(lower) - slope * lower
        for k in range(1, POINTS + 1):
            z = lower + length * (k / POINTS)
            offset = self.function(z) - slope * z
            lowest, highest = torch.minimum(lowest, offset), torch.maximum(highest, offset)
        size = (slope * inputs.size).abs() + self.function(upper).abs() + self.function(lower).abs()
        room = self.bend(inputs) * (length / POINTS).square() / 8 + 8 * torch.finfo(lower.dtype).eps * size
        return Lines(slope, lowest - room, slope, highest + room)


def relu_lines(inputs: Interval, lower_slope: Tensor | None = None) -> Lines:
    r"""Return the triangle of a ReLU: the chord above, a line through 0 below.

    Source: Zhang et al., "Efficient Neural Network Robustness Certification with General Activation
    Functions", 2018.

    Args:
        inputs: the interval
        lower_slope: the slope below, from 0 to 1; by default 1 where the interval reaches farther up than down

    >>> lines = relu_lines(Interval(torch.tensor([-1.0]), torch.tensor([3.0])))
    >>> [round(float(part), 3) for part in lines]
    [1.0, 0.0, 0.75, 0.75]
    """
    lower, upper = inputs.lower, inputs.upper
    dead, alive = upper <= 0, lower >= 0
    chord = upper / (upper - lower).clamp(min=torch.finfo(lower.dtype).tiny)
    chord = torch.where(alive, 1, torch.where(dead, 0, chord))
    offset = torch.where(alive | dead, 0, -chord * lower)
    below = (upper > -lower).to(lower.dtype) if lower_slope is None else lower_slope
    below = torch.where(alive, 1, torch.where(dead, 0, below))
    # A chord whose slope is rounded down ends below the function.
    offset = offset + 4 * torch.finfo(lower.dtype).eps * torch.where(alive | dead, 0, inputs.size)
    return Lines(below, torch.zeros_like(lower), chord, offset)


def _constant(bend: float) -> Callable[[Interval], Tensor]:
    return lambda inputs: torch.full_like(inputs.lower, bend)


SILU = Activation(F.silu, _constant(0.5), valley=-1.2784645427610738)
TANH = Activation(torch.tanh, _constant(0.77))
SIGMOID = Activation(torch.sigmoid, _constant(0.0963))
SQUARE = Activation(torch.square, _constant(2.0), valley=0.0)
SQRT = Activation(torch.sqrt, lambda inputs: inputs.lower.pow(-1.5) / 4)
RECIPROCAL = Activation(torch.reciprocal, lambda inputs: 2 * inputs.lower.pow(-3), falls=True)


def gelu(approximate: str = "none") -> Activation:
    """Return GELU, exact or approximated by a hyperbolic tangent; their lowest points differ by 1e-3."""
    valley = -0.7517915249 if approximate == "none" else -0.7524614220
    return Activation(lambda z: F.gelu(z, approximate=approximate), _constant(0.8), valley=valley)


def softplus(beta: float = 1.0, threshold: float = 20.0) -> Activation:
    """Return softplus, log(1 + exp(beta z)) / beta, whose curvature is at most beta / 4."""
    return Activation(lambda z: F.softplus(z, beta, threshold), _constant(beta / 4))
