"""Intervals of tensors, and how affine maps and products change them, rounding included."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from soar.errors import UserError
from soar.threat import L2, Linf, Threat


class Interval(NamedTuple):
    """What every entry of a tensor lies between, for all images that a threat allows.

    Args:
        lower: the lower ends
        upper: the upper ends
        axes: where the tensor is the image, scaled and shifted entry by entry, and the threat is an l2 ball,
            the semi-axes of the ellipsoid: they bound sums of entries more tightly than the ends do

    >>> Interval(torch.tensor([-1.0]), torch.tensor([3.0])).center
    tensor([1.])
    """

    lower: Tensor
    upper: Tensor
    axes: Tensor | None = None

    @property
    def center(self) -> Tensor:
        """The middle of every interval."""
        return (self.lower + self.upper) / 2

    @property
    def radius(self) -> Tensor:
        """Half the length of every interval."""
        return (self.upper - self.lower) / 2

    @property
    def size(self) -> Tensor:
        """The largest absolute value that every entry can have."""
        # It only serves to bound rounding, through which no gradient is worth its time.
        return torch.maximum(self.lower.detach().abs(), self.upper.detach().abs())

    def map(self, function: Callable[[Tensor], Tensor]) -> Interval:
        """Return the interval after a function that increases in every entry."""
        return Interval(function(self.lower), function(self.upper))

    def moved(self, function: Callable[[Tensor], Tensor]) -> Interval:
        """Return the interval after a function that moves or selects entries, each at most once."""
        axes = None if self.axes is None else function(self.axes)
        return Interval(function(self.lower), function(self.upper), axes)

    def widened(self, terms: int = 1) -> Interval:
        """Return the interval with room for the rounding of a sum of so many terms of its size."""
        room = rounding(self.lower, terms) * self.size
        return Interval(self.lower - room, self.upper + room, self.axes)


def around(x: Tensor, threat: Threat) -> Interval:
    """Return the interval of the images that a threat allows: its ball within the pixel range.

    Args:
        x: images in [0, 1]
        threat: an linf or l2 ball

    Raises:
        UserError: for a ball of another norm

    >>> around(torch.tensor([[0.1, 0.5]]), Linf("0.2"))
    Interval(lower=tensor([[0.0000, 0.3000]]), upper=tensor([[0.3000, 0.7000]]), axes=None)
    """
    require_bounded(threat)
    # Attacks may exceed the radius by the rounding of their projection.
    reach = threat.radius * (1 + rounding(x, 2)) + rounding(x, 0)
    lower, upper = (x - reach).clamp(min=0), (x + reach).clamp(max=1)
    return Interval(lower, upper, None if isinstance(threat, Linf) else torch.full_like(x, reach))


def require_bounded(threat: Threat) -> None:
    """Refuse a norm for whose ball there are no bounds.

    Raises:
        UserError: if it is neither linf nor l2

    >>> from soar.threat import L1
    >>> require_bounded(L1(12))
    Traceback (most recent call last):
    soar.errors.UserError: threat: got l1 12, expected linf or l2, for which there are bounds; ...
    """
    if not isinstance(threat, Linf | L2):
        raise UserError(
            f"threat: got {threat}, expected linf or l2, for which there are bounds; an l1 ball lies in the"
            " l2 ball of the same radius (flag --norm l2)"
        )


def rounding(like: Tensor, terms: int) -> float:
    r"""Return what a sum of n products is off by at most, relative to the sum of their sizes.

    \( 2 (n + 2) u \), u the unit roundoff: once for the model and once for the bound itself, in whatever
    order the terms are added (Higham, "Accuracy and Stability of Numerical Algorithms", section 3.1).
    Arithmetic in less than the precision of the tensors, such as TF32 on a GPU, is not covered.

    Args:
        like: a tensor of the precision
        terms: how many products are added
    """
    return (terms + 2) * torch.finfo(like.dtype).eps


def affine(
    inputs: Interval, linear: Callable[[Tensor, Tensor], Tensor], weight: Tensor, terms: int, nominal: Tensor
) -> Interval:
    r"""Return the interval of a linear map, \( W c \pm |W| (r + \gamma |c|) \), gamma for rounding.

    For the images of an l2 ball with semi-axes s it lies within \( W x \pm \sqrt{W^2 s^2} \), too.

    Args:
        inputs: the interval that goes in
        linear: the map, as a function of the inputs and its weight
        weight: its weight
        terms: how many products each output is the sum of
        nominal: W x for the image itself

    >>> box = Interval(torch.tensor([[0.0, 0.0]]), torch.tensor([[2.0, 4.0]]))
    >>> bound = affine(box, torch.nn.functional.linear, torch.tensor([[1.0, -1.0]]), 2, torch.zeros(1, 1))
    >>> [round(float(end), 3) for end in bound[:2]]
    [-4.0, 2.0]
    """
    gamma = rounding(weight, terms)
    room = gamma * inputs.size
    center, radius = linear(inputs.center, weight), linear(inputs.radius + room, weight.abs())
    found = Interval(center - radius, center + radius)
    if inputs.axes is None:
        return found
    length = linear(inputs.axes.square(), weight.square()).clamp(min=0).sqrt()
    reach = (1 + gamma) * length + linear(room, weight.abs())
    return Interval(torch.maximum(found.lower, nominal - reach), torch.minimum(found.upper, nominal + reach))


def scaled(
    inputs: Interval, factor: Tensor | float, shift: Tensor | float = 0.0, magnitude: Tensor | None = None
) -> Interval:
    """Return the interval of `factor` times every entry plus `shift`, neither of which depends on the image.

    Args:
        inputs: the interval that goes in
        factor: what entries are multiplied by
        shift: what is added
        magnitude: the sum of the absolute values that the shift is made of, if it is more than one
    """
    ends = inputs.lower * factor + shift, inputs.upper * factor + shift
    axes = None if inputs.axes is None else (inputs.axes * factor).abs()
    if axes is not None and axes.shape != ends[0].shape:
        axes = None
    room = rounding(inputs.lower, 4) * scale_of(inputs, factor, shift if magnitude is None else magnitude)
    if isinstance(factor, Tensor) or factor < 0:
        ends = torch.minimum(*ends), torch.maximum(*ends)
    return Interval(ends[0] - room, ends[1] + room, axes)


def scale_of(inputs: Interval, factor: Tensor | float, shift: Tensor | float = 0.0) -> Tensor:
    """Return how large `factor` times every entry plus `shift` can be at most, if nothing cancels."""
    return (inputs.size * factor).abs() + (shift.abs() if isinstance(shift, Tensor) else abs(shift))


def plus(first: Interval, second: Interval) -> Interval:
    """Return the interval of the sum of two tensors."""
    room = rounding(first.lower, 1) * (first.size + second.size)
    return Interval(first.lower + second.lower - room, first.upper + second.upper + room)


def both(first: Interval, second: Interval) -> Interval:
    """Return what lies in both of two intervals of the same tensor."""
    return Interval(torch.maximum(first.lower, second.lower), torch.minimum(first.upper, second.upper))


def times(first: Interval, second: Interval) -> Interval:
    """Return the interval of the product of two tensors, entry by entry.

    >>> first = Interval(torch.tensor(-1.0), torch.tensor(2.0))
    >>> times(first, Interval(torch.tensor(3.0), torch.tensor(4.0)))[:2]
    (tensor(-4.0000), tensor(8.0000))
    """
    ends = torch.stack([a * b for a in first[:2] for b in second[:2]])
    return Interval(ends.amin(dim=0), ends.amax(dim=0)).widened()
