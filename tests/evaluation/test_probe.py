from __future__ import annotations

import pytest
import torch

from soar.attacks import PGD
from soar.evaluation import probe as module
from soar.evaluation.assess import assess
from soar.evaluation.probe import Tempered
from soar.threat import Linf
from tests.evaluation.evidence.made import Linear, images, probe


def test_the_same_question_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def counted(*given: object, **options: object) -> object:
        asked.append(given[3])
        return assess(*given, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "assess", counted)
    made = probe(Linear(), count=20)
    first = made.robust(PGD(steps=3))
    assert torch.equal(made.robust(PGD(steps=3)), first) and len(asked) == 1
    made.robust(PGD(steps=4))
    made.robust(PGD(steps=3), threat=Linf("0.001"))
    made.robust(PGD(steps=3), temperature=2.0)
    assert len(asked) == 4


def test_a_temperature_changes_the_loss_and_no_prediction() -> None:
    model = Linear(factor=8.0)
    torch.testing.assert_close(Tempered(model, 8.0)(images(5)), Linear()(images(5)))
    made = probe(model, count=20)
    assert made.correct.all() and made.correct.device.type == "cpu"
    assert made.x.shape == made.images.shape and len(made.index) == 20
