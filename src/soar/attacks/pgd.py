"""PGD (Madry et al., 2018): climb the loss, step by step, inside the ball; FGSM is one step of it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache
from typing import Literal

import torch
from torch import Tensor

from soar import epsilon, losses, values
from soar.attacks.ascent import Ascent, ClimbState
from soar.attacks.attack import ATTACKS, Answer, Examples, check_choice
from soar.errors import UserError
from soar.threat import Threat

Schedule = Literal["constant", "linear", "cosine"]


def climb(
    points: Tensor,
    gradient: Tensor,
    x: Tensor,
    threat: Threat,
    step_size: Tensor | float,
    radius: Tensor | None = None,
) -> Tensor:
    """Take one step of steepest ascent and come back to the nearest point that the threat allows.

    points' = P(points + step_size * argmax_{||v|| <= 1} <gradient, v>)

    In l1 the step stays in the pixel range, see `L1.step`.

    Args:
        points: the current points
        gradient: of the loss there
        x: the clean images, centers of the balls
        threat: the ball
        step_size: one length for all examples or one for each
        radius: of the ball, one per example, in place of eps
    """
    return threat.project(threat.step(points, gradient, step_size), x, radius)


def usual_step_length(eps: Fraction, steps: int) -> Fraction:
    """Return a quarter of eps, and more when there are fewer than ten steps: enough to cross the ball.

    >>> usual_step_length(Fraction(8, 255), 20), usual_step_length(Fraction(1), 1)
    (Fraction(2, 255), Fraction(5, 4))
    """
    return eps * min(Fraction(5, 4), max(Fraction(1, 4), Fraction(5, 2 * steps)))


@ATTACKS.register("pgd")
@dataclass(frozen=True, kw_only=True)
class PGD(Ascent[ClimbState]):
    """Projected gradient ascent with random start, restarts and targets.

    An example stops at the first point that fools the model, the random start included. A run of k steps
    takes k gradients and k + 1 predictions.

    Args:
        steps: how many steps of ascent
        step_size: the length of a step, such as "2/255"; by default a quarter of eps, and more when there
            are fewer than ten steps: eps * min(1.25, max(1/4, 2.5/steps))
        restarts: how many random starts each example gets, one after the other, until one succeeds
        random_start: whether to begin at a random point of the ball rather than at the image
        loss: what to climb: ce, margin or dlr, or a function of logits and labels
        targets: 0 to climb away from the label; k to climb in turn to the k most likely wrong classes
        schedule: how the step length falls over the steps

    >>> PGD(steps=40, restarts=5, loss="margin").label
    'PGD-40 margin x5'
    >>> PGD(steps=20).step_length(Fraction(8, 255)) == 2 / 255
    True
    """

    steps: int = 20
    step_size: str | float | Fraction | None = None
    restarts: int = 1
    random_start: bool = True
    loss: str | losses.Loss = "ce"
    targets: int = 0
    schedule: Schedule = "constant"

    def __post_init__(self) -> None:
        super().__post_init__()
        values.truth(self.random_start, "attack.random_start")
        check_choice("schedule", self.schedule, Schedule)
        if self.step_size is not None:
            epsilon.parse(self.step_size, "attack.step_size")
        if callable(self.loss) and self.targets:
            raise UserError(
                "attack.targets: a loss given as a function cannot be targeted; use ce, margin or dlr"
            )
        if self.restarts > 1 and not self.random_start:
            raise UserError(
                f"attack.restarts: got {self.restarts} without random_start; they would all be the same"
            )

    @property
    def label(self) -> str:
        """Return the label: the attack with its steps, loss, targets and restarts."""
        loss = self.loss if isinstance(self.loss, str) else getattr(self.loss, "__name__", "custom")
        parts = [
            f"PGD-{self.steps}",
            loss if loss != "ce" else "",
            f"T{self.targets}" if self.targets else "",
            f"x{self.restarts}" if self.restarts > 1 else "",
        ]
        return " ".join(filter(None, parts))

    @property
    def starts_at_image(self) -> bool:
        """True without a random start; targets are chosen by the clean logits, which must be known before."""
        return not self.random_start and not self.targets

    def step_length(self, eps: Fraction) -> float:
        """Return the length of the first step for a radius."""
        if self.step_size is not None:
            return float(epsilon.parse(self.step_size))
        return float(usual_step_length(eps, self.steps))

    def start(self, examples: Examples, threat: Threat) -> ClimbState:
        """Begin at a random point of the ball, or at the image."""
        x = examples.x
        points = threat.random_start(x, examples.keys("pgd start")) if self.random_start else x
        target = self.target_classes(examples)
        return ClimbState(examples, target, points, torch.zeros_like(examples.labels))

    def update(self, state: ClimbState, answer: Answer, threat: Threat) -> ClimbState:
        """Take one step up, or none after the last."""
        if answer.gradient is None:
            return replace(state, step=state.step + 1)
        length = self._length(threat.eps, state)
        points = climb(state.points, answer.gradient, state.examples.x, threat, length)
        return replace(state, points=points, step=state.step + 1)

    def _length(self, eps: Fraction, state: ClimbState) -> Tensor:
        """Return the length of each example's next step."""
        first, points = self.step_length(eps), state.points
        if self.schedule == "constant":
            return points.new_full((len(points),), first)
        return _lengths(first, self.schedule, self.steps, points.dtype, points.device)[state.step]


@lru_cache(maxsize=8)
def _lengths(
    first: float, schedule: Schedule, steps: int, dtype: torch.dtype, device: torch.device
) -> Tensor:
    """Tabulate the length of the next step after 0 ... steps steps, computed in float64 on the CPU."""
    done = torch.arange(steps + 1, dtype=torch.float64, device="cpu") / steps
    shares = 1 - done if schedule == "linear" else (1 + (math.pi * done).cos()) / 2
    return (first * shares).to(dtype).to(device)


@ATTACKS.register("fgsm")
@dataclass(frozen=True, kw_only=True)
class FGSM(PGD):
    """One step of length eps from the image itself: x + eps * sign(gradient), or its siblings in l2 and l1.

    The fast gradient sign method of Goodfellow et al., 2015.

    Args:
        loss: what to climb: ce, margin or dlr, or a function of logits and labels

    >>> FGSM().label, FGSM(loss="margin").label
    ('FGSM', 'FGSM margin')
    """

    steps: int = field(default=1, init=False)
    step_size: str | float | Fraction | None = field(default=None, init=False)
    restarts: int = field(default=1, init=False)
    random_start: bool = field(default=False, init=False)
    targets: int = field(default=0, init=False)
    schedule: Schedule = field(default="constant", init=False)

    @property
    def label(self) -> str:
        """Return the label: the attack."""
        return super().label.replace("PGD-1", "FGSM")

    def step_length(self, eps: Fraction) -> float:
        """Return eps: one step goes to the edge of the ball."""
        return float(eps)
