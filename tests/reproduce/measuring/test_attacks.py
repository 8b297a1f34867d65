"""Accuracy of a linear model under attacks, and attacks that are interrupted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from soar.attacks import Outcomes, engine
from soar.evaluation import work
from soar.reproduce.measuring.attacks import accuracy, clean, journal_of
from soar.reproduce.measuring.measurements import tidy
from tests.reproduce.subjects import Linear, grey, subject

# The logit of class 0 is 2 m at an image of brightness m = 128/255, and an linf adversary takes 4 eps off.
WEIGHTS = torch.tensor([0.25] * 12 + [-0.25] * 4)
PGD = {"attack": "pgd", "steps": 20, "norm": "linf"}


def split() -> Any:
    """Images of two classes: class 1 is always called class 0."""
    made = grey(4)
    made.labels[3] = 1
    return made


def test_clean_accuracy_counts_what_is_right() -> None:
    found = clean(subject(Linear(WEIGHTS), split(), "clean"))
    assert found.value == 75.0
    assert found.right is not None and found.right.tolist() == [True, True, True, False]


@pytest.mark.parametrize(("eps", "value"), [("63/255", 75.0), ("65/255", 0.0)])
def test_an_attack_succeeds_where_the_border_is_in_reach(eps: str, value: float, tmp_path: Path) -> None:
    found = accuracy(subject(Linear(WEIGHTS), split(), "accuracy", tmp_path, eps=eps, **PGD))
    assert found.value == value
    assert (found.details["attack"], found.details["clean"]) == ("PGD-20", 75.0)
    if value:
        assert (found.forward, found.backward) == (21 * 3 / 4, 20 * 3 / 4)


def test_an_attack_goes_on_from_its_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = subject(Linear(WEIGHTS), split(), "accuracy", tmp_path, eps="8/255", **PGD)
    original = engine.run
    attacked: list[int] = []

    def counted(model: Any, attack: Any, threat: Any, images: Any, *rest: Any, **options: Any) -> Outcomes:
        attacked.append(len(images))
        return original(model, attack, threat, images, *rest, **options)

    monkeypatch.setattr(work, "run", counted)
    first, second = accuracy(asked), accuracy(asked)
    assert attacked == [3, 0]
    assert (first.value, first.forward) == (second.value, second.forward)
    pattern = f"{journal_of(asked).stem}.*"
    assert list((tmp_path / "results").glob(pattern))
    tidy(asked.payload)
    assert not list((tmp_path / "results").glob(pattern))
