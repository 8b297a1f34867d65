"""Threat models: a norm ball around each image, within the pixel range.

All functions take batches: the first dimension is examples, the others are the image.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar, Self

import torch
from torch import Tensor

from soar import epsilon, randomness
from soar.errors import UserError, flag_of, shown, unknown
from soar.shapes import per_example

# The projection onto ball and box together solves for a scale by rounds that only add clipped pixels.
# Real images converge in fewer than ten rounds; a final rescaling keeps all others inside.
_ROUNDS = 20


@dataclass(frozen=True)
class Threat(ABC):
    """The set of perturbed images that an adversary may choose; use `Linf` or `L2`.

    Args:
        eps: the radius, such as "8/255", 0.1 or a Fraction; kept exactly

    Raises:
        UserError: if eps is not above 0
    """

    eps: Fraction
    norm_name: ClassVar[str]
    _rounding: ClassVar[tuple[float, float]]
    """what the norm of a projected point may exceed the radius by, in units of the last place of 1: an
    absolute number of them, and a number of them for each unit of the radius"""

    def __init__(self, eps: epsilon.Ratio) -> None:
        object.__setattr__(self, "eps", epsilon.parse(eps, "threat.eps"))

    def __str__(self) -> str:
        return f"{self.norm_name} {epsilon.show(self.eps)}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({epsilon.show(self.eps)!r})"

    @property
    def radius(self) -> float:
        """The radius as a float."""
        return float(self.eps)

    def scaled(self, factor: epsilon.Ratio) -> Self:
        """Return the same kind of threat with `factor` times the radius.

        >>> Linf("8/255").scaled("1/2")
        Linf('4/255')
        """
        return replace(self, eps=self.eps * epsilon.parse(factor, "factor"))

    def contains(self, points: Tensor, x: Tensor) -> Tensor:
        """Return whether each point is inside the ball and the pixel range, up to rounding; NaN is not.

        The tolerance is twice the rounding that projections were seen to leave, on images up to 224 x 224.
        """
        half = torch.finfo(points.dtype).eps / 2
        return _is_image(points, half) & self._in_ball(points - x)

    def _in_ball(self, delta: Tensor, radius: Tensor | None = None) -> Tensor:
        """Return whether each perturbation is inside the ball, up to rounding."""
        longest = self.radius if radius is None else radius
        absolute, relative = self._rounding
        unit = torch.finfo(delta.dtype).eps
        return self.norm(delta) <= longest * (1 + relative * unit) + absolute * unit

    @abstractmethod
    def norm(self, delta: Tensor) -> Tensor:
        """Return the norm of each example's perturbation."""

    @abstractmethod
    def dual_norm(self, gradient: Tensor) -> Tensor:
        """Return max <gradient, delta> over the unit ball, for each example."""

    @abstractmethod
    def ascent(self, gradient: Tensor) -> Tensor:
        """Return the unit direction in which a linear function with this gradient increases most."""

    @abstractmethod
    def project(self, points: Tensor, x: Tensor, radius: Tensor | None = None) -> Tensor:
        """Return the nearest points, in the Euclidean sense, inside the ball around x and in [0, 1].

        Args:
            points: anywhere
            x: images, centers of the balls
            radius: one per example, above 0, in place of eps
        """

    def random_start(self, x: Tensor, keys: Tensor, radius: Tensor | None = None) -> Tensor:
        """Draw a point uniformly from the ball around x, then clip it to the pixel range.

        Args:
            x: images
            keys: one key per example, from `soar.randomness.key`
            radius: one per example, above 0, in place of eps
        """
        scale = self.radius if radius is None else per_example(radius, x)
        return self.project(x + scale * self._in_unit_ball(x, keys), x, radius)

    @abstractmethod
    def _in_unit_ball(self, like: Tensor, keys: Tensor) -> Tensor:
        """Draw uniformly from the ball of radius 1, one point of the shape of an image for each key."""

    @abstractmethod
    def enclosing_l2_radius(self, dimension: int) -> float:
        """Return the radius of the smallest l2 ball that encloses this ball in that dimension."""


@dataclass(frozen=True, repr=False, init=False)
class Linf(Threat):
    """Every pixel may move by at most eps.

    >>> Linf("8/255").radius == 8 / 255
    True
    >>> print(Linf(0.1), round(Linf("8/255").enclosing_l2_radius(3072), 4))
    linf 0.1 1.7388
    """

    norm_name: ClassVar[str] = "linf"
    _rounding: ClassVar[tuple[float, float]] = (0.5, 0)

    def __init__(self, eps: epsilon.Ratio) -> None:
        super().__init__(eps)
        if self.eps > 1:
            raise UserError(
                f"threat.eps: got {epsilon.as_given(eps)} for linf, expected at most 1, because pixels are"
                f" in [0, 1]; 8 of 255 gray levels are written 8/255{flag_of('threat.eps')}"
            )

    def norm(self, delta: Tensor) -> Tensor:
        """Return the largest change of a pixel."""
        return delta.flatten(1).abs().amax(dim=1)

    def dual_norm(self, gradient: Tensor) -> Tensor:
        """Return the l1 norm."""
        return gradient.flatten(1).abs().sum(dim=1)

    def ascent(self, gradient: Tensor) -> Tensor:
        """Return the sign of every entry."""
        return gradient.sign()

    def project(self, points: Tensor, x: Tensor, radius: Tensor | None = None) -> Tensor:
        """Clip every pixel to eps around x and to [0, 1]."""
        room = self.radius if radius is None else per_example(radius, x)
        low = (x - room).clamp_(min=0)
        high = (x + room).clamp_(max=1)
        return torch.clamp(points, low, high)

    def _in_unit_ball(self, like: Tensor, keys: Tensor) -> Tensor:
        return 2 * randomness.uniform(keys, tuple(like.shape[1:]), like.dtype) - 1

    def enclosing_l2_radius(self, dimension: int) -> float:
        """Return sqrt(d) eps, the distance to a corner of the cube."""
        return math.sqrt(dimension) * self.radius


@dataclass(frozen=True, repr=False, init=False)
class L2(Threat):
    """The image may move by at most eps in Euclidean length.

    >>> L2(0.5)
    L2('0.5')
    """

    norm_name: ClassVar[str] = "l2"
    _rounding: ClassVar[tuple[float, float]] = (2, 4)

    def norm(self, delta: Tensor) -> Tensor:
        """Return the Euclidean length."""
        length: Tensor = torch.linalg.vector_norm(delta.flatten(1), dim=1)
        return length

    def dual_norm(self, gradient: Tensor) -> Tensor:
        """Return the Euclidean length, which is its own dual."""
        return self.norm(gradient)

    def ascent(self, gradient: Tensor) -> Tensor:
        """Return the gradient at unit length; a zero gradient stays zero."""
        # Dividing by the largest entry first keeps the squares of tiny gradients from vanishing.
        largest = per_example(gradient.flatten(1).abs().amax(dim=1), gradient)
        tiny = torch.finfo(gradient.dtype).tiny
        scaled = gradient / largest.clamp(min=tiny)
        direction: Tensor = scaled / per_example(self.norm(scaled), gradient).clamp(min=tiny)
        return direction

    def project(self, points: Tensor, x: Tensor, radius: Tensor | None = None) -> Tensor:
        r"""Return the nearest point of ball and box together.

        It is clip(x + s (points - x)) with the largest s <= 1 for which it lies in the ball. With r_i the
        distance of pixel i to the end of its range in its direction, s solves
        \sum_i min(s |d_i|, r_i)^2 = eps^2. A point of both is returned as it is.
        """
        d = points - x
        outside = ~(_is_image(points) & self._in_ball(d, radius))
        if points.device.type != "cpu":
            # Asking which points are outside would wait for the device; projecting all of them does not.
            return torch.where(per_example(outside, points), self._nearest(d, x, radius), points)
        if not bool(outside.any()):
            return points
        if bool(outside.all()):
            return self._nearest(d, x, radius)
        rows = outside.nonzero()[:, 0]
        nearest = self._nearest(d[rows], x[rows], None if radius is None else radius[rows])
        return points.index_copy(0, rows, nearest)

    def _nearest(self, d: Tensor, x: Tensor, radius: Tensor | None) -> Tensor:
        """Return the point of ball and box that is nearest to x + d."""
        # The distance to 1 where d is above 0, otherwise to 0: many times faster than `where` on a CPU.
        room = (torch.gt(d.detach(), 0, out=torch.empty_like(d)) - x).abs_().flatten(1)
        size = d.flatten(1).abs()
        longest = self.radius if radius is None else radius
        scale = _largest_scale(size, room, longest)
        delta = (per_example(scale, d) * d).flatten(1)
        delta = torch.minimum(delta.abs(), room) * delta.sign()
        excess = torch.linalg.vector_norm(delta, dim=1) / longest
        delta = delta / excess.clamp(min=1)[:, None]
        projected: Tensor = (x + delta.reshape(d.shape)).clamp_(0, 1)
        return projected

    def _in_unit_ball(self, like: Tensor, keys: Tensor) -> Tensor:
        dimension = math.prod(like.shape[1:])
        draws = randomness.normal(keys, (dimension + 2,), like.dtype)
        # A sphere in d + 2 dimensions, projected onto d of them, is a uniform ball (Archimedes).
        inside: Tensor = draws[:, :dimension] / torch.linalg.vector_norm(draws, dim=1, keepdim=True)
        return inside.reshape(like.shape)

    def enclosing_l2_radius(self, dimension: int) -> float:  # noqa: ARG002 - same for every dimension
        """Return eps itself."""
        return self.radius


def threat(norm: str, eps: epsilon.Ratio) -> Threat:
    """Build a threat from the name of its norm.

    >>> threat("linf", "8/255")
    Linf('8/255')
    """
    kinds: dict[str, type[Threat]] = {"linf": Linf, "l2": L2}
    if not isinstance(norm, str) or norm not in kinds:
        raise unknown("norm", norm, kinds, "threat.norm")
    return kinds[norm](eps)


def _is_image(points: Tensor, slack: float = 0.0) -> Tensor:
    """Return whether all pixels of each example are in [0, 1]; NaN is not."""
    flat = points.flatten(1)
    return (flat.amin(dim=1) >= -slack) & (flat.amax(dim=1) <= 1 + slack)


def _largest_scale(size: Tensor, room: Tensor, radius: Tensor | float) -> Tensor:
    """Solve sum_i min(s size_i, room_i)^2 = radius^2 for s <= 1, from below, one s per example."""
    tiny = torch.finfo(size.dtype).tiny
    scale: Tensor = (radius / torch.linalg.vector_norm(size, dim=1).clamp(min=tiny)).clamp(max=1)
    # Pixel i is clipped from this scale on. Comparisons that write numbers are many times faster on a CPU.
    until, flags = room / size.clamp(min=tiny), torch.empty_like(size)
    spent_if, free_if = room.square(), size.square()
    for _ in range(_ROUNDS):
        spent = torch.linalg.vecdot(spent_if, torch.le(until, scale[:, None], out=flags))
        free = torch.linalg.vecdot(free_if, torch.gt(until, scale[:, None], out=flags))
        left = (radius * radius - spent).clamp(min=0)
        better = torch.where(free > 0, (left / free.clamp(min=tiny)).sqrt(), 1).clamp(max=1)
        # Rounds after the last one that helps change nothing, and asking would wait for another device.
        if size.device.type == "cpu" and not bool((better > scale).any()):
            break
        scale = torch.maximum(scale, better)
    return scale


def require_threat(given: object) -> None:
    """Check that something is a threat.

    Raises:
        UserError: if it is anything else

    >>> require_threat(0.1)
    Traceback (most recent call last):
    soar.errors.UserError: threat: got 0.1, expected such as Linf("8/255") or L2(0.5)
    """
    if not isinstance(given, Threat):
        is_plain = isinstance(given, str | int | float | Fraction)
        written = shown(given) if is_plain else type(given).__name__
        raise UserError(f'threat: got {written}, expected such as Linf("8/255") or L2(0.5)')
