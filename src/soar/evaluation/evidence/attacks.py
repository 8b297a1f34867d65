"""The attacks that several checks look at; a probe runs each of them once."""

from __future__ import annotations

from torch import Tensor

from soar.attacks import APGD, PGD
from soar.evaluation.probe import Probe

PGD_CE = PGD(steps=20)
PGD_MARGIN = PGD(steps=20, loss="margin")
# Three starts against three targets: 60 gradients each, so that only the loss differs.
APGD_CE = APGD(steps=20, restarts=3)
APGD_DLR = APGD(steps=20, loss="dlr", targets=3)

ON_CROSS_ENTROPY = (PGD_CE, APGD_CE)
ON_MARGINS = (PGD_MARGIN, APGD_DLR)


def survivors(probe: Probe, *attacks: PGD | APGD) -> Tensor:
    """Return which examples stay correctly classified under all of these attacks.

    Args:
        probe: the model under diagnosis
        attacks: the recipes
    """
    left = probe.correct
    for attack in attacks:
        left = left & probe.robust(attack)
    return left
