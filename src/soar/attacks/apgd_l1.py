"""Auto-PGD in l1: sparse steps in three balls, the widest first.

Croce and Hein, *Mind the box: l1-APGD for sparse adversarial attacks on image classifiers* (2021), with the
numbers of AutoAttack's own code.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cache

import torch
from torch import Tensor

from soar import randomness
from soar.attacks.ascent import Ascent, ClimbState
from soar.attacks.attack import Answer, Examples
from soar.geometry import sparse
from soar.shapes import per_example
from soar.threat import Threat

# The balls before the last one, as multiples of eps, and the share of the steps that is taken in each.
_WIDER, _SHARE_EACH = (3.0, 2.0), 0.3
# A step moves as many pixels as the best perturbation has, divided by this; so does a checkpoint the length.
_REDUCTION = 1.5
# Of all steps in a ball, how many there are from one checkpoint to the next.
_WINDOW = 0.04
# The length starts again at eps where the best perturbation has so many fewer pixels; it never falls below
# this share of eps.
_SPARSER, _SHORTEST = 0.95, 0.1


@dataclass(frozen=True)
class SparseState(ClimbState):
    """The current and the best point of each example in its current ball, and how it steps."""

    is_first: Tensor
    """whether the point is the first in its ball"""
    best: Tensor
    """the highest loss in this ball"""
    best_points: Tensor
    best_gradient: Tensor
    pixels: Tensor
    """how many pixels the best perturbation had at the last checkpoint"""
    length: Tensor


@dataclass(frozen=True)
class Ball:
    """Some steps of a run, all in one ball."""

    factor: float
    """its radius as a multiple of eps"""
    begins: int
    """how many steps are taken before"""
    ends: int
    """how many steps have been taken at its last point"""


@cache
def balls(steps: int) -> tuple[Ball, ...]:
    """Return the balls of a run: 3 eps and 2 eps for 0.3 of the steps each, rounded up, then eps.

    >>> [(ball.factor, ball.begins, ball.ends) for ball in balls(100)]
    [(3.0, 0, 30), (2.0, 30, 60), (1.0, 60, 100)]
    >>> [ball.factor for ball in balls(2)]
    [1.0]
    """
    each = min(math.ceil(_SHARE_EACH * steps), (steps - 1) // 2)
    wider = [Ball(factor, i * each, (i + 1) * each) for i, factor in enumerate(_WIDER) if each]
    return (*wider, Ball(1.0, len(wider) * each, steps))


@dataclass(frozen=True, kw_only=True)
class SparseAPGD(Ascent[SparseState]):
    r"""Auto-PGD in l1, which `APGD` becomes there.

    x_{k+1} = P(x_k + eta s / ||s||_1),   s = the signs of the largest entries of the gradient, else 0

    The start is the nearest point to x + t, t Gaussian, in ball and pixel range. The first 0.3 of the steps
    climb in the ball of radius 3 eps and the next 0.3 in that of 2 eps; each further ball starts at the
    nearest point to the best one of the ball before. Only points in the last ball, eps, count.

    eta begins at the ball's radius. With n the number of pixels that differ at the best point, s has n / 1.5
    entries. At checkpoints (every step, if a ball has less than 50), where n has fallen by more than 5%, eta
    is the radius again and the search goes on from the best point; elsewhere eta is divided by 1.5, down to
    a tenth of the radius.

    Args:
        steps: how many gradients are followed
        restarts: how many random starts each example gets
        loss: what to climb: ce, margin or dlr
        targets: 0 to climb away from the label; otherwise how many wrong classes are climbed to
    """

    steps: int
    restarts: int
    loss: str
    targets: int

    @property
    def label(self) -> str:
        """Return a label for messages; results name the attack that this one stands for."""
        return f"sparse APGD-{self.loss}"

    @property
    def stays_inside(self) -> bool:
        """False where the search begins in wider balls."""
        return len(balls(self.steps)) == 1

    @property
    def budget(self) -> int:
        """One prediction after every step, and one at the start in every ball."""
        return self.steps + len(balls(self.steps))

    def start(self, examples: Examples, threat: Threat) -> SparseState:
        """Begin at a random point of the widest ball."""
        x, step = examples.x, torch.zeros_like(examples.labels)
        far = x + randomness.normal(examples.keys("apgd start"), tuple(x.shape[1:]), x.dtype)
        radius = self._radius(step, threat).to(x.dtype)
        points = threat.project(far, x, radius)
        return SparseState(
            examples=examples,
            target=self.target_classes(examples),
            points=points,
            step=step,
            is_first=torch.ones_like(step, dtype=torch.bool),
            best=torch.full_like(radius, -torch.inf),
            best_points=points,
            best_gradient=torch.zeros_like(x),
            pixels=changed(points, x),
            length=radius,
        )

    def update(self, state: SparseState, answer: Answer, threat: Threat) -> SparseState:
        """Keep the best point, and take the next step or enter the next ball."""
        if answer.gradient is None:
            return replace(state, step=state.step + 1)
        x, at = state.examples.x, state.step
        state = _kept(state, answer.loss, answer.gradient)
        radius = self._radius(at, threat, is_first=state.is_first).to(x.dtype)
        state, gradient = self._checked(state, answer.gradient, radius)

        enters = ~state.is_first & self._table(at.device)[2][at]
        inner = self._radius(at, threat).to(x.dtype)
        # Both at once: a step from the current point in its ball, or none from the best one in the next ball.
        moved = sparse(gradient.flatten(1).abs(), state.pixels / _REDUCTION, state.length)
        from_here = state.points + moved.reshape(x.shape) * gradient.sign()
        aim = torch.where(per_example(enters, x), state.best_points, from_here)
        points = threat.project(aim, x, torch.where(enters, inner, radius))
        return replace(
            state,
            points=points,
            step=at + ~enters,
            is_first=enters,
            best=state.best.masked_fill(enters, -torch.inf),
            pixels=torch.where(enters, changed(points, x), state.pixels),
            length=torch.where(enters, inner, state.length),
        )

    def _checked(self, state: SparseState, gradient: Tensor, radius: Tensor) -> tuple[SparseState, Tensor]:
        """Adapt the steps at checkpoints, and return the state and the gradients to follow."""
        checked = ~state.is_first & self._table(radius.device)[1][state.step]
        pixels = changed(state.best_points, state.examples.x)
        is_sparser = pixels < _SPARSER * state.pixels
        shorter = torch.maximum(state.length / _REDUCTION, _SHORTEST * radius)
        back = per_example(checked & is_sparser, gradient)
        state = replace(
            state,
            points=torch.where(back, state.best_points, state.points),
            pixels=torch.where(checked, pixels, state.pixels),
            length=torch.where(checked, torch.where(is_sparser, radius, shorter), state.length),
        )
        return state, torch.where(back, state.best_gradient, gradient)

    def _radius(self, step: Tensor, threat: Threat, is_first: Tensor | None = None) -> Tensor:
        """Return the radius in which the next step is taken, or the point after a step lies."""
        factors = self._table(step.device)[0]
        if is_first is not None:
            # A point that is not the first in its ball lies in that of the step which led there.
            step = torch.where(is_first, step, (step - 1).clamp(min=0))
        return threat.radius * factors[step]

    def _table(self, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
        return _table(self.steps, device)


@cache
def _table(steps: int, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """Tabulate, for 0 ... steps: the ball of the next step, and whether a point ends a window or a ball."""
    factors = torch.ones(steps + 1, dtype=torch.float64, device="cpu")
    is_check = torch.zeros(steps + 1, dtype=torch.bool, device="cpu")
    is_end = torch.zeros(steps + 1, dtype=torch.bool, device="cpu")
    for ball in balls(steps):
        factors[ball.begins : ball.ends] = ball.factor
        window = max(int(_WINDOW * (ball.ends - ball.begins)), 1)
        is_check[ball.begins + window : ball.ends + 1 : window] = True
        is_end[ball.ends] = ball.ends < steps
    return factors.to(device), is_check.to(device), is_end.to(device)


def _kept(state: SparseState, loss: Tensor, gradient: Tensor) -> SparseState:
    """Return the state with the highest loss of the ball so far, where it is and the gradient there."""
    is_best = loss > state.best
    mask = per_example(is_best, gradient)
    return replace(
        state,
        best=torch.where(is_best, loss, state.best.to(loss.dtype)),
        best_points=torch.where(mask, state.points, state.best_points),
        best_gradient=torch.where(mask, gradient, state.best_gradient),
    )


def changed(points: Tensor, x: Tensor) -> Tensor:
    """Count the pixels of each image that differ, a channel of a pixel at a time."""
    return (points != x).flatten(1).sum(dim=1)
