"""The fast adaptive boundary attack (Croce and Hein, 2020): along the border, ever nearer to the image."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from soar import losses, values
from soar.attacks.ascent import count_entries
from soar.attacks.attack import ATTACKS, Answer, Attack, Examples, check_counts
from soar.attacks.hyperplane import step_over
from soar.attacks.oracle import reaches_goal
from soar.errors import UserError
from soar.shapes import per_example
from soar.threat import Threat

# What AutoAttack uses; labels name only what differs.
_STEPS, _TARGETS, _ALPHA, _ETA, _BETA = 100, 9, 0.1, 1.05, 0.9
# In how many ways two trials may have ended.
_PASTS = 4


@dataclass(frozen=True)
class BorderState:
    """The current point of each example along the border, and the nearest one found so far."""

    examples: Examples
    target: Tensor
    """the class on the other side"""
    points: Tensor
    step: Tensor
    """how many times the model has been linearized"""
    is_base: Tensor
    """whether the point is to be linearized; otherwise it is a trial that must be evaluated first"""
    recent: Tensor
    """how the last two trials ended, as a number below 4 in which a crossing is a bit of 1"""
    habit: Tensor
    """for each of these numbers, whether the trial that followed it last time crossed the border"""
    best: Tensor
    """the nearest point found so far that fools the model, in the ball or not; at first the image"""
    distance: Tensor
    """how far that is from the image; infinite while there is none"""


@ATTACKS.register("fab")
@dataclass(frozen=True, kw_only=True)
class FAB(Attack[BorderState]):
    r"""Minimum-norm attack that linearizes the model near the border of one target class after another.

    With D and w the value and the gradient of z_t - z_y at x_k, and P the projection inside the pixel range
    onto D + <w, z - x_k> = 0,

    d_1 = P(x_k) - x_k,  d_2 = P(x_0) - x_0,  a = min(||d_1|| / (||d_1|| + ||d_2||), alpha),
    x_{k+1} = clip((1 - a) (x_k + eta d_1) + a (x_0 + eta d_2)),

    and where the model is wrong there, x_{k+1} is pulled back to x_0 + beta (x_{k+1} - x_0). The defaults are
    those of AutoAttack. An example stops at the first point inside the ball that fools the model.

    A trial that is still correctly classified is linearized from the same evaluation. A gradient at a trial
    that crossed the border is wasted, because that point is left, so trials that are expected to cross are
    evaluated without one. Trials fall into a rhythm, such as every other one crossing; what is expected is
    what came last time after the same two outcomes, as processors predict branches.

    Args:
        steps: how many linearizations
        targets: how many wrong classes to try, the most likely at the image first
        restarts: how often each target is tried; the first time from the image, then from a random point up
            to eps / 2 away
        alpha: the largest weight of the projection of the image itself
        eta: how far to overshoot the border; 1 is not at all
        beta: how far to go back toward the image from beyond the border; 1 is not at all

    Raises:
        UserError: if a number makes no sense

    >>> FAB().label, FAB(steps=20, targets=3, restarts=2).label
    ('FAB-T', 'FAB-T 3 targets 20 steps x2')
    """

    projects: ClassVar[bool] = True
    steps: int = _STEPS
    targets: int = _TARGETS
    restarts: int = 1
    alpha: float = _ALPHA
    eta: float = _ETA
    beta: float = _BETA

    def __post_init__(self) -> None:
        check_counts(steps=self.steps, targets=self.targets, restarts=self.restarts)
        for name in ("alpha", "eta", "beta"):
            values.number(getattr(self, name), f"attack.{name}")
        for name, is_allowed, expected in (
            ("alpha", 0 <= self.alpha <= 1, "0 to 1"),
            ("eta", 1 <= self.eta < float("inf"), "at least 1"),
            ("beta", 0 < self.beta <= 1, "above 0 and at most 1"),
        ):
            if not is_allowed:
                raise UserError(f"attack.{name}: got {float(getattr(self, name)):g}, expected {expected}")

    @property
    def stays_inside(self) -> bool:
        """False: the nearest points that fool the model are sought, and many lie beyond the ball."""
        return False

    @property
    def label(self) -> str:
        """Return the label: the attack, with the numbers that are not those of AutoAttack."""
        parts = [
            "FAB-T",
            f"{self.targets} targets" if self.targets != _TARGETS else "",
            f"{self.steps} steps" if self.steps != _STEPS else "",
            f"alpha {float(self.alpha):g}" if self.alpha != _ALPHA else "",
            f"eta {float(self.eta):g}" if self.eta != _ETA else "",
            f"beta {float(self.beta):g}" if self.beta != _BETA else "",
            f"x{self.restarts}" if self.restarts > 1 else "",
        ]
        return " ".join(filter(None, parts))

    @property
    def budget(self) -> int:
        """Each linearization may take a prediction with a gradient, and its trial one without."""
        return 2 * self.steps

    def entries(self, classes: int) -> int:
        """Count restarts times targets; there are at most as many targets as wrong classes."""
        return count_entries(self.restarts, self.targets, classes)

    def start(self, examples: Examples, threat: Threat) -> BorderState:
        """Begin at the image, and in later restarts at a random point near it."""
        if examples.logits is None:
            raise UserError("attack: FAB chooses its targets by the clean logits and cannot do without them")
        x = examples.x
        count = self.entries(examples.logits.shape[1]) // self.restarts
        is_targeted = examples.goal >= 0
        # All targets are tried before any is tried again; a goal is the only target there is.
        rank = torch.where(is_targeted, 0, examples.entry % count)
        likely = losses.strongest_targets(examples.logits, examples.labels, rank)
        points = x.clone()
        if self.restarts > 1:
            near = threat.scaled("1/2").random_start(x, examples.keys("fab start"))
            points = torch.where(per_example(examples.entry > rank, x), near, x)
        return BorderState(
            examples=examples,
            target=torch.where(is_targeted, examples.goal, likely),
            points=points,
            step=torch.zeros_like(rank),
            is_base=torch.ones_like(rank, dtype=torch.bool),
            recent=torch.full_like(rank, _PASTS - 1),
            habit=torch.ones(len(x), _PASTS, dtype=torch.bool, device=x.device),
            best=x,
            distance=x.new_full((len(x),), torch.inf),
        )

    def wants_gradient(self, state: BorderState) -> Tensor:
        """Return which examples are linearized now, or will be if the trial does not cross."""
        will_cross = state.habit.gather(1, state.recent[:, None])[:, 0]
        return (state.step < self.steps) & (state.is_base | ~will_cross)

    def score(self, logits: Tensor, state: BorderState) -> Tensor:
        """Return z_t - z_y, which is zero on the border."""
        return losses.targeted_margin(logits, state.examples.labels, state.target)

    def update(self, state: BorderState, answer: Answer, threat: Threat) -> BorderState:
        """Pull back the trials that crossed the border, and linearize wherever else there is a gradient."""
        crossed = reaches_goal(state.examples, answer.logits)
        learned = state.habit.scatter(1, state.recent[:, None], crossed[:, None])
        x, points = state.examples.x, state.points
        best, distance = _nearer(state, crossed, threat)
        is_back = crossed & ~state.is_base
        onward = ~is_back & (state.step < self.steps) & (answer.gradient is not None)
        if points.device.type != "cpu":
            # Every step for every point: finding out which take it would wait for the device.
            points = torch.where(per_example(is_back, x), torch.lerp(x, points, self.beta), points)
            if answer.gradient is not None:
                ahead = self._step_over(state.points, x, answer.loss, answer.gradient, threat)
                points = torch.where(per_example(onward, x), ahead, points)
        elif answer.gradient is not None and bool(onward.all()):
            points = self._step_over(points, x, answer.loss, answer.gradient, threat)
        else:
            points, back = points.clone(), is_back.nonzero()[:, 0]
            points[back] = torch.lerp(x[back], points[back], self.beta)
            if answer.gradient is not None:
                rows = onward.nonzero()[:, 0]
                value, gradient = answer.loss[rows], answer.gradient[rows]
                points[rows] = self._step_over(points[rows], x[rows], value, gradient, threat)
        return replace(
            state,
            points=points,
            step=state.step + onward,
            is_base=~onward,
            recent=torch.where(state.is_base, state.recent, (2 * state.recent + crossed) % _PASTS),
            habit=torch.where(state.is_base[:, None], state.habit, learned),
            best=best,
            distance=distance,
        )

    def _step_over(
        self, points: Tensor, x: Tensor, value: Tensor, gradient: Tensor, threat: Threat
    ) -> Tensor:
        return step_over(points, x, value, gradient, threat, alpha=self.alpha, eta=self.eta)

    def exhausted(self, state: BorderState) -> Tensor:
        """Return which examples have been evaluated at their last trial."""
        return (state.step >= self.steps) & state.is_base


def _nearer(state: BorderState, crossed: Tensor, threat: Threat) -> tuple[Tensor, Tensor]:
    """Return the nearest point that fools the model and its distance, the current points included."""
    if crossed.device.type != "cpu":
        lengths = threat.norm(state.points - state.examples.x)
        gains = crossed & (lengths < state.distance)
        best = torch.where(per_example(gains, state.best), state.points, state.best)
        return best, torch.where(gains, lengths, state.distance)
    rows = crossed.nonzero()[:, 0]
    far = threat.norm(state.points[rows] - state.examples.x[rows])
    is_nearer = far < state.distance[rows]
    rows = rows[is_nearer]
    if not len(rows):
        return state.best, state.distance
    best = state.best.index_copy(0, rows, state.points[rows])
    return best, state.distance.index_copy(0, rows, far[is_nearer])
