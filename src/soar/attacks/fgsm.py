"""The fast gradient sign method (Goodfellow et al., 2015): one step to the edge of the ball."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

from soar.attacks.attack import ATTACKS
from soar.attacks.pgd import PGD, Schedule


@ATTACKS.register("fgsm")
@dataclass(frozen=True, kw_only=True)
class FGSM(PGD):
    """One step of length eps from the image itself: x + eps * sign(gradient), or its l2 sibling.

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
        """Name the attack."""
        return super().label.replace("PGD-1", "FGSM")

    def step_length(self, eps: Fraction) -> float:
        """Go to the edge of the ball at once."""
        return float(eps)
