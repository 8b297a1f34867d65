"""Accuracy of a linear model under attacks, and attacks that are interrupted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from soar.attacks import Outcomes, engine
from soar.data import Split
from soar.evaluation import target
from soar.evaluation.attack_result import bits
from soar.reproduce.measuring.attacks import accuracy, clean, journal_of
from soar.reproduce.measuring.measurements import tidy
from tests.reproduce.subjects import Linear, gray, subject

# The logit of class 0 is 2 m at an image of brightness m = 128/255, and an linf adversary takes 4 eps off.
WEIGHTS = torch.tensor([0.25] * 12 + [-0.25] * 4)
PGD = {"attack": "pgd", "steps": 20, "norm": "linf"}


def split() -> Any:
    """Images of two classes: class 1 is always called class 0."""
    made = gray(4)
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

    monkeypatch.setattr(target, "run", counted)
    first, second = accuracy(asked), accuracy(asked)
    assert attacked == [3, 0]
    assert (first.value, first.forward) == (second.value, second.forward)
    pattern = f"{journal_of(asked).stem}.*"
    assert list((tmp_path / "results").glob(pattern))
    tidy(asked.payload)
    assert not list((tmp_path / "results").glob(pattern))


def curved(count: int) -> tuple[nn.Module, Split]:
    """A network with borders at many distances, and images that it has right but for two."""
    with torch.random.fork_rng():
        torch.manual_seed(3)
        model = nn.Sequential(nn.Flatten(), nn.Linear(16, 12), nn.Tanh(), nn.Linear(12, 4))
        images = torch.randint(0, 256, (count, 1, 4, 4), dtype=torch.uint8)
    said = model(images / 255).argmax(dim=1)
    said[:2] = (said[:2] + 1) % 4
    return model, Split(images, said, torch.arange(count))


@pytest.mark.parametrize("norm, radii", [("linf", ("1/5", "1/10", "1/30")), ("l2", ("0.6", "0.3", "0.1"))])
def test_who_stays_right_in_a_larger_ball_needs_no_attack_in_a_smaller_one(
    norm: str, radii: tuple[str, ...], tmp_path: Path
) -> None:
    model, images = curved(40)
    fab = {"attack": "fab", "steps": 20, "targets": 3, "norm": norm}
    values, larger = [], ""
    for eps in radii:
        asked = subject(model, images, "accuracy", tmp_path / "alone", eps=eps, **fab)
        alone = accuracy(asked)
        nested = subject(model, images, "accuracy", tmp_path / "nested", eps=eps, **fab)
        nested.payload["larger"] = larger  # type: ignore[index]
        found = accuracy(nested)
        assert (found.value, found.low, found.details) == (alone.value, alone.low, alone.details)
        assert found.right is not None and alone.right is not None and found.right.equal(alone.right)
        assert found.forward < alone.forward if larger else found.forward == alone.forward
        nested.cache.save_result(nested.key, {"value": found.value, "right": bits(found.right)})
        values.append(found.value)
        larger = nested.key
    assert 0 < values[0] < values[1] < values[2] < 95


def test_where_all_stay_right_in_the_larger_ball_nothing_is_attacked(tmp_path: Path) -> None:
    asked = subject(Linear(WEIGHTS), gray(3), "accuracy", tmp_path, eps="1/255", attack="fab")
    asked.payload["larger"] = "large"  # type: ignore[index]
    asked.cache.save_result("large", {"value": 100.0, "right": "111"})
    found = accuracy(asked)
    assert (found.value, found.forward, found.details["clean"]) == (100.0, 0.0, 100.0)
