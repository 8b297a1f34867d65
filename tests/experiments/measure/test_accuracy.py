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
from soar.evaluation.files import bits
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


@pytest.fixture
def attacked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of images in each attack."""
    original = engine.run
    counts: list[int] = []

    def counted(model: Any, attack: Any, threat: Any, images: Any, *rest: Any, **options: Any) -> Outcomes:
        counts.append(len(images))
        return original(model, attack, threat, images, *rest, **options)

    monkeypatch.setattr(target, "run", counted)
    return counts


def test_an_attack_resumes_from_its_journal(tmp_path: Path, attacked: list[int]) -> None:
    asked = task(Linear(WEIGHTS), split(), "accuracy", tmp_path, eps="8/255", **PGD)
    first, second = accuracy(asked), accuracy(asked)
    assert attacked == [3, 0]
    assert first.value == second.value
    assert list((tmp_path / "results").glob(f"{asked.cache.journal(asked.key).stem}.*"))


def curved(count: int) -> tuple[nn.Module, Split]:
    """A network with borders at many distances, and images that it classifies correctly but for two."""
    with torch.random.fork_rng():
        torch.manual_seed(3)
        model = nn.Sequential(nn.Flatten(), nn.Linear(16, 12), nn.Tanh(), nn.Linear(12, 4))
        images = torch.randint(0, 256, (count, 1, 4, 4), dtype=torch.uint8)
    labels = model(images / 255).argmax(dim=1)
    labels[:2] = (labels[:2] + 1) % 4
    return model, Split(images, labels, torch.arange(count))


@pytest.mark.parametrize("norm, radii", [("linf", ("1/5", "1/10", "1/30")), ("l2", ("0.6", "0.3", "0.1"))])
def test_images_robust_in_a_larger_ball_need_no_attack_in_a_smaller_one(
    norm: str, radii: tuple[str, ...], tmp_path: Path, attacked: list[int]
) -> None:
    model, images = curved(40)
    fab = {"attack": "fab", "steps": 20, "targets": 3, "norm": norm}
    values, larger, robust = [], "", 0
    for eps in radii:
        alone = accuracy(task(model, images, "accuracy", tmp_path / "alone", eps=eps, **fab))
        nested = task(model, images, "accuracy", tmp_path / "nested", eps=eps, **fab)
        nested.payload["larger"] = larger  # type: ignore[index]
        found = accuracy(nested)
        assert (found.value, found.low) == (alone.value, alone.low)
        assert found.correct is not None and alone.correct is not None and found.correct.equal(alone.correct)
        assert attacked[-2:] == [38, 38 - robust]
        nested.cache.save_result(nested.key, {"value": found.value, "correct": bits(found.correct)})
        values.append(found.value)
        larger, robust = nested.key, int(found.correct.sum())
    assert 0 < values[0] < values[1] < values[2] < 95


def test_where_all_are_robust_in_the_larger_ball_nothing_is_attacked(
    tmp_path: Path, attacked: list[int]
) -> None:
    asked = task(Linear(WEIGHTS), gray(3), "accuracy", tmp_path, eps="1/255", attack="fab")
    asked.payload["larger"] = "large"  # type: ignore[index]
    asked.cache.save_result("large", {"value": 100.0, "correct": "111"})
    assert (accuracy(asked).value, attacked) == (100.0, [])
