"""Confidence of models that can be worked out by hand."""

from __future__ import annotations

import pytest
import torch

from soar.experiments.measuring.confidence import confidence
from tests.experiments.subjects import Constant, Linear, gray, subject


@pytest.mark.parametrize("at", ["clean", "random", "pgd1"])
def test_a_constant_model_is_equally_sure_everywhere(at: str) -> None:
    model = Constant(torch.tensor([0.8, 0.2]).log())
    found = confidence(subject(model, gray(5), "confidence", at=at, eps="8/255"))
    assert found.value == pytest.approx(80.0, abs=1e-4)
    assert found.low == pytest.approx(80.0, abs=1e-3) == found.high
    assert found.details["entries"] == 0


def test_a_linear_model_is_less_sure_where_the_adversary_was() -> None:
    model = Linear(torch.ones(16) / 4)
    sure = {
        at: confidence(subject(model, gray(50), "confidence", at=at, eps="8/255")).value
        for at in ("clean", "random", "pgd1")
    }
    logit = torch.tensor(16 / 4 * 128 / 255)
    assert sure["clean"] == pytest.approx(100 * float(logit.sigmoid()), abs=1e-4)
    worst = 100 * float((logit - 16 / 4 * 8 / 255).sigmoid())
    assert worst <= sure["pgd1"] < sure["random"]
    assert sure["random"] == pytest.approx(sure["clean"], abs=1)
