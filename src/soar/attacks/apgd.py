"""Auto-PGD (Croce and Hein, 2020): gradient ascent with momentum that finds its own step length."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from soar import losses, randomness
from soar.attacks.apgd_l1 import SparseAPGD
from soar.attacks.apgd_schedule import Pace, first_pace, next_pace
from soar.attacks.ascent import Ascent, ClimbState
from soar.attacks.attack import ATTACKS, Answer, Attack, Examples, check_counts
from soar.attacks.pgd import climb
from soar.shapes import per_example
from soar.threat import L1, L2, Threat

# What AutoAttack uses; labels name only what differs.
_STEPS, _TARGETS = 100, 9
_GRADIENT_SHARE = 0.75


@dataclass(frozen=True)
class APGDState(ClimbState):
    """The current, the previous and the best point of each example, and its step length."""

    previous: Tensor
    """where the last step began; the momentum points from there"""
    best_points: Tensor
    best_gradient: Tensor
    pace: Pace


@ATTACKS.register("apgd")
@dataclass(frozen=True, kw_only=True)
class APGD(Ascent[APGDState]):
    r"""Auto-PGD: momentum, halved steps and returns to the best point, with restarts and targets.

    z       = P(x_k + eta dir(gradient))
    x_{k+1} = P(x_k + 0.75 (z - x_k) + 0.25 (x_k - x_{k-1})),    x_1 = z

    The start lies on the border of the ball and eta begins at 2 eps. Checkpoints (`apgd_schedule`) halve eta
    for examples that stopped improving; such an example goes on from its best point, with the gradient it
    had there, and keeps x_{k-1}. A run of k steps takes k gradients and k + 1 predictions.

    In l2 P is the nearest point of ball and box. AutoAttack scales into the ball and then clips, which
    can leave a point well inside the ball; without clipped pixels the two are the same. In l1 it is a method
    of its own, see `soar.attacks.apgd_l1`.

    Args:
        steps: how many gradients are followed
        restarts: how many random starts each example gets
        loss: what to climb: ce, margin or dlr; with two classes dlr is the margin
        targets: 0 to climb away from the label; otherwise climb toward each of this many of the most
            likely wrong classes at the clean image in turn, one run each, at most all wrong classes

    Raises:
        UserError: if a number makes no sense

    >>> APGD().label, APGD(steps=20, restarts=5).label, APGD(loss="dlr", targets=9).label
    ('APGD-CE', 'APGD-CE 20 steps x5', 'APGD-T')
    """

    steps: int = _STEPS
    restarts: int = 1
    loss: str = "ce"
    targets: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        losses.check_name(self.loss, "attack.loss")

    @property
    def label(self) -> str:
        """Return the label: the loss, or T for targeted dlr, and what differs from AutoAttack."""
        loss = self.loss if self.loss == "margin" else self.loss.upper()
        name = f"APGD-{loss}"
        if self.targets:
            name = "APGD-T" if self.loss == "dlr" else f"APGD-T {loss}"
        parts = [
            name,
            f"{self.targets} targets" if self.targets not in (0, _TARGETS) else "",
            f"{self.steps} steps" if self.steps != _STEPS else "",
            f"x{self.restarts}" if self.restarts > 1 else "",
        ]
        return " ".join(filter(None, parts))

    def against(self, threat: Threat) -> Attack[Any]:
        """Return the sparse version in l1."""
        if not isinstance(threat, L1):
            return self
        return SparseAPGD(steps=self.steps, restarts=self.restarts, loss=self.loss, targets=self.targets)

    def start(self, examples: Examples, threat: Threat) -> APGDState:
        """Begin at a random point of the border."""
        x = examples.x
        points = border_start(x, examples.keys("apgd start"), threat)
        return APGDState(
            examples=examples,
            target=self.target_classes(examples),
            points=points,
            previous=points,
            best_points=points,
            best_gradient=torch.zeros_like(x),
            pace=first_pace(x.new_full((len(x),), 2 * threat.radius)),
            step=torch.zeros_like(examples.labels),
        )

    def update(self, state: APGDState, answer: Answer, threat: Threat) -> APGDState:
        """Keep the best point, go back to it where the step was halved, and take the next step."""
        if answer.gradient is None:
            return replace(state, step=state.step + 1)
        is_best = per_example(answer.loss > state.pace.best, state.points)
        best_points = torch.where(is_best, state.points, state.best_points)
        best_gradient = torch.where(is_best, answer.gradient, state.best_gradient)
        pace, halved = next_pace(state.pace, answer.loss, state.step, self.steps)
        back = per_example(halved, state.points)
        points = torch.where(back, best_points, state.points)
        gradient = torch.where(back, best_gradient, answer.gradient)

        x = state.examples.x
        straight = climb(points, gradient, x, threat, pace.length)
        return replace(
            state,
            points=threat.project(with_momentum(points, state.previous, straight, state.step > 0), x),
            previous=points,
            best_points=best_points,
            best_gradient=best_gradient,
            pace=pace,
            step=state.step + 1,
        )


@ATTACKS.register("apgd-t")
def apgd_t(*, steps: int = _STEPS, targets: int = _TARGETS, restarts: int = 1) -> APGD:
    """Auto-PGD on the targeted DLR loss, one run for each of the likely wrong classes.

    Args:
        steps: how many gradients are followed toward each target
        targets: how many classes are tried, at most all wrong ones
        restarts: how many random starts each target gets

    >>> apgd_t().label, apgd_t(targets=3).entries(classes=10)
    ('APGD-T', 3)
    """
    check_counts(targets=targets)
    return APGD(steps=steps, restarts=restarts, loss="dlr", targets=targets)


def with_momentum(points: Tensor, previous: Tensor, straight: Tensor, moving: Tensor) -> Tensor:
    """Return x_k + 0.75 (z - x_k) + 0.25 (x_k - x_{k-1}), or z itself for examples that are not yet moving.

    Args:
        points: x_k
        previous: x_{k-1}
        straight: z, where the gradient alone leads to
        moving: which examples have taken a step before
    """
    share = per_example(torch.where(moving, _GRADIENT_SHARE, 1.0).to(points.dtype), points)
    return torch.lerp(points, straight, share).addcmul_(points - previous, 1 - share)


def border_start(x: Tensor, keys: Tensor, threat: Threat) -> Tensor:
    """Draw x + eps t / ||t|| and clip it to the pixel range, t uniform in a cube (linf) or Gaussian (l2).

    In l1 it is the nearest point to x + t in ball and pixel range, t Gaussian, as in AutoAttack.

    Args:
        x: images
        keys: one key per example
        threat: the ball
    """
    shape = tuple(x.shape[1:])
    if isinstance(threat, L1):
        return threat.project(x + randomness.normal(keys, shape, x.dtype), x)
    if isinstance(threat, L2):
        t = randomness.normal(keys, shape, x.dtype)
    else:
        t = 2 * randomness.uniform(keys, shape, x.dtype) - 1
    length = threat.norm(t).clamp(min=torch.finfo(x.dtype).tiny)
    return threat.project(x + threat.radius * t / per_example(length, x), x)
