from __future__ import annotations

import pytest
import torch

from soar.attacks import PGD, Square
from soar.evaluation.assess import assess
from soar.evaluation.checks import (
    APGD_DLR,
    ON_CROSS_ENTROPY,
    ON_MARGINS,
    PGD_CE,
    Tempered,
    budgets,
    comparisons,
    worst_case,
)
from soar.threat import Linf
from tests.evaluation.checks.made import Linear, images, shared


def test_only_what_all_attacks_leave_survives() -> None:
    under = shared(Linear())
    left = under.survivors(PGD_CE, APGD_DLR)
    assert torch.equal(left, under.robust(PGD_CE) & under.robust(APGD_DLR))
    assert torch.equal(under.survivors(), under.target.correct)


def test_checks_share_their_attacks() -> None:
    """Five white-box ones; Square; longer and oftener; two radii; two without a limit; one softened."""
    under = shared(Linear(factor=100), count=20)
    for examine in (comparisons.examine_losses, comparisons.examine_temperature, budgets.examine):
        examine(under)
    comparisons.examine_black_box(under, square=Square(queries=10))
    worst_case.examine(under)
    assert len(under._known) == 4 + 1 + 1 + 2 + 2 + 2 + 1
    assert len(under.tried) == 4 + 1 + 1 + 2 + 1, "those within eps"


def test_labels_tell_the_attacks_apart() -> None:
    labels = [attack.label for attack in ON_CROSS_ENTROPY + ON_MARGINS]
    assert len(set(labels)) == 4


def test_the_same_question_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def counted(*given: object, **options: object) -> object:
        asked.append(given[1])
        return assess(*given, **options)  # type: ignore[arg-type]

    monkeypatch.setattr("soar.evaluation.checks.assess", counted)
    made = shared(Linear(), count=20)
    first = made.robust(PGD(steps=3))
    assert torch.equal(made.robust(PGD(steps=3)), first) and len(asked) == 1
    made.robust(PGD(steps=4))
    made.robust(PGD(steps=3), threat=Linf("0.001"))
    made.robust(PGD(steps=3), temperature=2.0)
    assert len(asked) == 4


def test_a_temperature_changes_the_loss_and_no_prediction() -> None:
    model = Linear(factor=8.0)
    torch.testing.assert_close(Tempered(model, 8.0)(images(5)), Linear()(images(5)))
    assert shared(model, count=20).target.correct.all()
