"""Threat models: a norm ball around each image, within the pixel range.

All functions take batches: the first dimension is examples, the others are the image.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar, Self

import torch
from torch import Tensor

from soar import epsilon, randomness
from soar.errors import UserError, flag_of, shown, unknown
from soar.geometry import largest_scale, sparse, threshold
from soar.shapes import per_example

# The share of the pixels that a step in l1 moves.
_STEP_SHARE = 0.05

_Nearest = Callable[[Tensor, Tensor, "Tensor | None"], Tensor]


@dataclass(frozen=True)
class Threat(ABC):
    """The set of perturbed images that an adversary may choose; use `Linf`, `L2` or `L1`.

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
        return self.norm(delta) <= longest * (1 + relative * unit) + absolute * self._terms(delta) * unit

    def _terms(self, delta: Tensor) -> float:  # noqa: ARG002 - one for most norms
        """Return by how much the rounding of single pixels grows in the norm of all of them."""
        return 1.0

    @abstractmethod
    def norm(self, delta: Tensor) -> Tensor:
        """Return the norm of each example's perturbation."""

    @abstractmethod
    def dual_norm(self, gradient: Tensor) -> Tensor:
        """Return max <gradient, delta> over the unit ball, for each example."""

    @abstractmethod
    def ascent(self, gradient: Tensor) -> Tensor:
        """Return the unit direction in which a linear function with this gradient increases most."""

    def step(self, points: Tensor, gradient: Tensor, length: Tensor | float) -> Tensor:
        """Move points by a step of steepest ascent, perhaps out of the ball and the pixel range.

        Args:
            points: in [0, 1]
            gradient: of what is climbed there
            length: of the step, the same for all or one per example
        """
        size = per_example(length, points) if isinstance(length, Tensor) else length
        return points + size * self.ascent(gradient)

    @abstractmethod
    def project(self, points: Tensor, x: Tensor, radius: Tensor | None = None) -> Tensor:
        """Return the nearest points, in the Euclidean sense, inside the ball around x and in [0, 1].

        Args:
            points: anywhere
            x: images, centers of the balls
            radius: one per example, above 0, in place of eps
        """

    def _projected(self, points: Tensor, x: Tensor, radius: Tensor | None, nearest: _Nearest) -> Tensor:
        """Return points of both ball and pixel range as they are, and the nearest such point of others."""
        d = points - x
        outside = ~(_is_image(points) & self._in_ball(d, radius))
        if points.device.type != "cpu":
            # Asking which points are outside would wait for the device; projecting all of them does not.
            return torch.where(per_example(outside, points), nearest(d, x, radius), points)
        if not bool(outside.any()):
            return points
        if bool(outside.all()):
            return nearest(d, x, radius)
        rows = outside.nonzero()[:, 0]
        found = nearest(d[rows], x[rows], None if radius is None else radius[rows])
        return points.index_copy(0, rows, found)

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
        return self._projected(points, x, radius, self._nearest)

    def _nearest(self, d: Tensor, x: Tensor, radius: Tensor | None) -> Tensor:
        """Return the point of ball and box that is nearest to x + d."""
        room, size = _room(x, d).flatten(1), d.flatten(1).abs()
        longest = self.radius if radius is None else radius
        scale = largest_scale(size, room, longest)
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


@dataclass(frozen=True, repr=False, init=False)
class L1(Threat):
    """The changes of all pixels may add up to eps, so an adversary changes few of them by much.

    >>> L1(12)
    L1('12')
    """

    norm_name: ClassVar[str] = "l1"
    _rounding: ClassVar[tuple[float, float]] = (0.25, 4)

    def _terms(self, delta: Tensor) -> float:
        """Return the number of pixels: all may be rounded in the same direction."""
        return float(math.prod(delta.shape[1:]))

    def norm(self, delta: Tensor) -> Tensor:
        """Return the sum of all changes."""
        return delta.flatten(1).abs().sum(dim=1)

    def dual_norm(self, gradient: Tensor) -> Tensor:
        """Return the largest entry's size."""
        return gradient.flatten(1).abs().amax(dim=1)

    def ascent(self, gradient: Tensor) -> Tensor:
        """Return the sign of the largest entry, and zero elsewhere."""
        flat = gradient.flatten(1)
        largest = flat.abs().argmax(dim=1, keepdim=True)
        signs = flat.gather(1, largest).sign()
        return torch.zeros_like(flat).scatter(1, largest, signs).reshape(gradient.shape)

    def step(self, points: Tensor, gradient: Tensor, length: Tensor | float) -> Tensor:
        """Move a twentieth of the pixels by the same amount each: the largest gradients that have room.

        Moving but one pixel at a time, or each as far as it can go, is steeper and gets nowhere: the
        projection after the next step takes it back (Croce and Hein, *Mind the box: l1-APGD for sparse
        adversarial attacks on image classifiers*, 2021).
        """
        worth = gradient.flatten(1).abs() * (_room(points, gradient).flatten(1) > 0)
        return (
            points
            + sparse(worth, _STEP_SHARE * worth.shape[1], length).reshape(points.shape) * gradient.sign()
        )

    def project(self, points: Tensor, x: Tensor, radius: Tensor | None = None) -> Tensor:
        r"""Return the nearest point of ball and box together.

        With d = points - x and r_i the distance of pixel i to the end of its range in its direction, it is
        x + sign(d_i) min(max(|d_i| - t, 0), r_i) with the smallest t >= 0 for which it lies in the ball
        (Croce and Hein, 2021). A point of both is returned as it is.
        """
        return self._projected(points, x, radius, self._nearest)

    def _nearest(self, d: Tensor, x: Tensor, radius: Tensor | None) -> Tensor:
        """Return the point of ball and box that is nearest to x + d."""
        room, size = _room(x, d).flatten(1), d.flatten(1).abs()
        longest = self.radius if radius is None else radius
        moved = torch.minimum((size - threshold(size, room, longest)[:, None]).clamp_(min=0), room)
        excess = moved.sum(dim=1) / longest
        delta = (moved / excess.clamp(min=1)[:, None]).reshape(d.shape) * d.sign()
        projected: Tensor = (x + delta).clamp_(0, 1)
        return projected

    def _in_unit_ball(self, like: Tensor, keys: Tensor) -> Tensor:
        dimension = math.prod(like.shape[1:])
        # Halfway between the 2^24 numbers that may be drawn, so that none has an infinite logarithm.
        draws = 2 * randomness.uniform(keys, (dimension + 1,), like.dtype) - (1 - 2.0**-24)
        # Laplace variables, divided by the sum of their sizes and one more, fill the ball evenly.
        laplace = torch.log1p(-draws.abs()) * -draws.sign()
        inside: Tensor = laplace[:, :dimension] / laplace.abs().sum(dim=1, keepdim=True)
        return inside.reshape(like.shape)

    def enclosing_l2_radius(self, dimension: int) -> float:  # noqa: ARG002 - same for every dimension
        """Return eps: the corners of the ball lie on the sphere of that radius."""
        return self.radius


def threat(norm: str, eps: epsilon.Ratio) -> Threat:
    """Build a threat from the name of its norm.

    >>> threat("linf", "8/255")
    Linf('8/255')
    """
    kinds: dict[str, type[Threat]] = {one.norm_name: one for one in (Linf, L2, L1)}
    if not isinstance(norm, str) or norm not in kinds:
        raise unknown("norm", norm, kinds, "threat.norm")
    return kinds[norm](eps)


def _is_image(points: Tensor, slack: float = 0.0) -> Tensor:
    """Return whether all pixels of each example are in [0, 1]; NaN is not."""
    flat = points.flatten(1)
    return (flat.amin(dim=1) >= -slack) & (flat.amax(dim=1) <= 1 + slack)


def _room(points: Tensor, direction: Tensor) -> Tensor:
    """Return each pixel's distance to 1 where the direction is above 0, otherwise to 0."""
    # Many times faster than `where` on a CPU.
    return (torch.gt(direction.detach(), 0, out=torch.empty_like(direction)) - points).abs_()


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
