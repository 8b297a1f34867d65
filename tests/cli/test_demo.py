from __future__ import annotations

from pathlib import Path

import pytest

from soar import recipes
from soar.cli.main import main
from soar.evaluation import Assessment


@pytest.mark.slow
def test_the_demo_shows_what_robust_training_is_worth(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["demo"]) == 0
    standard, robust = (
        Assessment.load(tmp_path / "runs" / "demo" / name / "assessment.json")
        for name in ("standard", "robust")
    )
    assert standard.accuracy("clean") > 0.8 and standard.worst_case < 0.25
    assert robust.accuracy("clean") > 0.75 and robust.worst_case > 0.55
    assert "worst case" in capsys.readouterr().out


def test_a_short_demo_goes_through_every_stage_and_a_second_call_makes_a_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    load = recipes.load
    short = ["--max_steps", "5", "--data.validation", "50", "--validation.examples", "10"]
    monkeypatch.setattr(recipes, "load", lambda name, flags=(): load(name, [*flags, *short]))
    flags = ["--examples", "20", "--epochs", "1", "--threads", "1", "--quiet"]
    assert main(["demo", *flags]) == 0
    folder = tmp_path / "runs" / "demo"
    shown = capsys.readouterr().out
    assert "standard" in shown and "robust" in shown and "worst case" in shown
    assert (folder / "comparison.txt").read_text().strip() == shown.strip()
    (folder / "comparison.txt").unlink()
    assessment = (folder / "robust" / "assessment.json").read_text()
    assert main(["demo", *flags]) == 0
    assert (folder / "robust" / "assessment.json").read_text() == assessment, "an unfinished demo goes on"
    assert not (tmp_path / "runs" / "demo-2").exists()
