from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from soar import studies
from soar.cli.main import main
from soar.training import Trainer


@pytest.mark.slow
def test_the_demo_shows_what_robust_training_is_worth(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["demo"]) == 0
    standard, pgd, soar = json.loads((tmp_path / "runs" / "demo" / "study.json").read_text())["rows"]
    assert standard["accuracy"]["clean"] > 0.8 and standard["accuracy"]["worst case"] < 0.25
    assert pgd["accuracy"]["clean"] > 0.75 and pgd["accuracy"]["worst case"] > 0.55
    assert soar["accuracy"]["clean"] > 0.8 and soar["accuracy"]["worst case"] > 0.65
    assert "worst case" in capsys.readouterr().out


def test_a_short_demo_goes_through_every_stage_and_a_second_call_makes_a_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    demo, short = studies.load("demo"), {"training": {"max_steps": 3}, "validation": {"examples": 10}}
    monkeypatch.setattr(studies, "load", lambda _: replace(demo, fields=short))
    flags = ["--examples", "20", "--epochs", "1", "--threads", "1", "--quiet"]
    assert main(["demo", *flags]) == 0
    folder = tmp_path / "runs" / "demo"
    shown = capsys.readouterr().out
    assert all(name in shown for name in ("standard", "PGD-1", "SOAR", "PGD-20 margin", "worst case"))
    assert (folder / "study.txt").read_text() == shown
    assert "SOAR" in (folder / "comparison.svg").read_text()
    page = (folder / "report.html").read_text()
    assert all(name in page for name in ("standard", "pgd-1", "soar"))
    assert all((folder / name / "diagnosis.json").exists() for name in ("standard", "pgd-1", "soar"))
    (folder / "report.html").unlink()
    monkeypatch.setattr(Trainer, "fit", lambda _: pytest.fail("trained again"))
    assert main(["demo", *flags]) == 0, "an unfinished demo goes on"
    assert not (tmp_path / "runs" / "demo-2").exists()
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(studies, "load", lambda _: replace(demo, fields=short))
    assert main(["demo", *flags]) == 0
    assert (tmp_path / "runs" / "demo-2" / "report.html").exists()


def test_a_training_that_fails_is_told_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    demo = replace(studies.load("demo"), fields={"training": {"max_steps": 1, "batch_size": 10**6}})
    monkeypatch.setattr(studies, "load", lambda _: demo)
    assert main(["demo", "--threads", "1", "--quiet"]) == 2
    assert "the training of standard in runs/demo failed" in capsys.readouterr().err
