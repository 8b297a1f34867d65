from __future__ import annotations

import torch

from soar.evaluation.evidence import black_box, budgets, losses, temperature
from soar.evaluation.evidence.attacks import APGD_DLR, ON_CROSS_ENTROPY, ON_MARGINS, PGD_CE, survivors
from tests.evaluation.evidence.made import Linear, probe


def test_only_what_all_attacks_leave_survives() -> None:
    under = probe(Linear())
    left = survivors(under, PGD_CE, APGD_DLR)
    assert torch.equal(left, under.robust(PGD_CE) & under.robust(APGD_DLR))
    assert torch.equal(survivors(under), under.correct)


def test_checks_share_their_attacks() -> None:
    """Four on both losses; Square; longer and oftener; two radii; two without a limit; one softened."""
    under = probe(Linear(factor=100), count=20)
    for check in (losses, temperature, budgets):
        check.examine(under)
    black_box.examine(under, queries=10)
    assert len(under._known) == 4 + 1 + 2 + 2 + 2 + 1


def test_labels_tell_the_attacks_apart() -> None:
    labels = [attack.label for attack in ON_CROSS_ENTROPY + ON_MARGINS]
    assert len(set(labels)) == 4
