"""Accuracy of a linear model under attacks, and attacks that are interrupted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from soar.attacks import Outcomes, engine
from soar.evaluation import target
from soar.experiments.measure.accuracy import accuracy, clean
from tests.experiments.tasks import Linear, gray, task

# The logit of class 0 is 2 m at an image of brightness m = 128/255, and an linf adversary takes 4 eps off.
WEIGHTS = torch.tensor([0.25] * 12 + [-0.25] * 4)
PGD = {"attack": "pgd", "steps": 20, "norm": "linf"}


def split() -> Any:
    """Images of two classes: class 1 is always called class 0."""
    made = gray(4)
    made.labels[3] = 1
    return made


def test_clean_accuracy_counts_correct_predictions() -> None:
    found = clean(task(Linear(WEIGHTS), split(), "clean"))
    assert found.value == 75.0
    assert found.correct is not None and found.correct.tolist() == [True, True, True, False]


@pytest.mark.parametrize(("eps", "value"), [("63/255", 75.0), ("65/255", 0.0)])
def test_an_attack_succeeds_where_the_border_is_in_reach(eps: str, value: float, tmp_path: Path) -> None:
    found = accuracy(task(Linear(WEIGHTS), split(), "accuracy", tmp_path, eps=eps, **PGD))
    assert found.value == value


def test_an_attack_resumes_from_its_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = task(Linear(WEIGHTS), split(), "accuracy", tmp_path, eps="8/255", **PGD)
    original = engine.run
    attacked: list[int] = []

    def counted(model: Any, attack: Any, threat: Any, images: Any, *rest: Any, **options: Any) -> Outcomes:
        attacked.append(len(images))
        return original(model, attack, threat, images, *rest, **options)

    monkeypatch.setattr(target, "run", counted)
    first, second = accuracy(asked), accuracy(asked)
    assert attacked == [3, 0]
    assert first.value == second.value
    assert list((tmp_path / "results").glob(f"{asked.cache.journal(asked.key).stem}.*"))
