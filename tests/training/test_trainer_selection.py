from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from soar import checkpoints
from soar.recipes.settings import GuardSettings, ValidationSettings
from soar.training.validation import Scores
from tests.training import small


@pytest.mark.parametrize(
    ("robust", "best"), [((0.5, 0.6, 0.55), 12), ((0.5, 0.5, 0.5), 6), ((0.1, 0.2, 0.3), 18)]
)
def test_the_best_checkpoint_is_the_first_with_the_highest_accuracy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, robust: tuple[float, ...], best: int
) -> None:
    monkeypatch.setattr("soar.training.trainer.validate", small.Scripted(*robust))
    result = small.trainer(tmp_path).fit()
    assert result.best_scores == Scores(best, 0.8, max(robust))
    assert checkpoints.best(tmp_path) == result.best == tmp_path / "checkpoints" / f"step-{best:08}"


def test_selection_by_clean_accuracy_is_a_choice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("soar.training.trainer.validate", small.Scripted(0.1, 0.2, 0.3))
    guards = GuardSettings(overfitting="stop")
    trainer = small.trainer(tmp_path, validation=ValidationSettings(select="clean"), guards=guards)
    assert trainer.manager.rule.startswith("best checkpoint: highest clean accuracy on 20")
    result = trainer.fit()
    assert result.status == "finished"
    assert result.best_scores is not None
    assert result.best_scores.step == 6


@pytest.mark.parametrize(
    ("overfitting", "status", "steps"), [("stop", "stopped", 18), ("warn", "finished", 30)]
)
def test_catastrophic_overfitting(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    overfitting: Any,
    status: str,
    steps: int,
) -> None:
    monkeypatch.setattr("soar.training.trainer.validate", small.Scripted(0.4, 0.45, 0.2, 0.4, 0.4))
    guards = GuardSettings(overfitting=overfitting)
    result = small.trainer(tmp_path, guards=guards, epochs=5, progress="plain").fit()
    assert (result.status, result.steps) == (status, steps)
    text = "catastrophic overfitting: robust validation accuracy fell from 45.0% to 20.0%"
    assert f"warning: {text}" in capsys.readouterr().err
    if overfitting == "stop":
        assert text in result.reason
        again = small.trainer(tmp_path, guards=guards, epochs=5, resume=True).fit()
        assert (again.status, again.steps, again.reason) == (status, steps, result.reason)
        off = GuardSettings(overfitting="off")
        assert small.trainer(tmp_path, guards=off, epochs=5, resume=True).fit().steps == 30


def test_without_held_out_examples_the_last_checkpoint_is_the_best(tmp_path: Path) -> None:
    trainer = small.trainer(tmp_path, data=small.dataset(validation=0))
    assert trainer.manager.rule == "no held-out examples, so the last checkpoint counts as the best"
    result = trainer.fit()
    assert result.best == tmp_path / "checkpoints" / "step-00000018"
    assert result.best_scores is None


def test_without_a_threat_clean_accuracy_decides(tmp_path: Path) -> None:
    trainer = small.trainer(tmp_path, objective=small.Plain(small.network()))
    assert "clean accuracy (there is no threat" in trainer.manager.rule
    result = trainer.fit()
    assert result.best_scores is not None
    assert result.best_scores.robust is None
    assert "eps" not in small.rows(tmp_path)[0]
