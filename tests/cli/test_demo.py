from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from soar.cli.main import main
from soar.experiments import loading
from soar.experiments.experiment import Experiment
from tests.experiments.made import Pretender


@pytest.mark.slow
def test_the_demo_shows_what_robust_training_is_worth(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["demo"]) == 0
    rows = json.loads((tmp_path / "runs" / "demo" / "study.json").read_text())["rows"]
    (clean, worst) = (
        {row: cells[name]["values"][0] for row, cells in rows.items()} for name in ("clean", "worst case")
    )
    assert clean["standard"] > 80 and worst["standard"] < 10
    assert worst["FGSM"] < rows["FGSM"]["FGSM"]["values"][0] - 25, "robust to the attack it saw only"
    assert clean["N-FGSM"] > 65 and worst["N-FGSM"] > max(45, worst["FGSM"] + 10)
    assert "worst case" in capsys.readouterr().out


@pytest.fixture
def short(folder: Path, here: Pretender, monkeypatch: pytest.MonkeyPatch) -> None:
    """Train the networks of the demo for three updates."""
    load = loading.load

    def shortened(name: str, *, flags: Any = (), **conditions: Any) -> Experiment:
        less = ("--max_steps", "3", "--validation.examples", "10")
        return load(name, flags=(*flags, *less), **conditions)

    monkeypatch.setattr(loading, "load", shortened)


FLAGS = ["--examples", "20", "--epochs", "1", "--quiet"]


def test_a_short_demo_goes_through_every_stage_and_a_second_call_makes_a_new_one(
    folder: Path, short: None, here: Pretender, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["demo", *FLAGS]) == 0
    made = folder / "runs" / "demo"
    shown = capsys.readouterr().out
    assert all(name in shown for name in ("standard", "FGSM", "N-FGSM", "PGD-20 margin", "worst case"))
    assert (made / "study.txt").read_text() in shown
    page = (made / "report.html").read_text()
    assert all(f"<h3>{name}</h3>" in page for name in ("standard", "fgsm", "n-fgsm")), "by the names of links"
    assert all((made / name / "diagnosis.json").exists() for name in ("standard", "fgsm", "n-fgsm"))
    (made / "report.html").unlink()
    done = len(here.done)
    assert main(["demo", *FLAGS]) == 0, "an unfinished demo is resumed"
    assert not (folder / "runs" / "demo-2").exists() and len(here.done) == done
    assert main(["demo", *FLAGS]) == 0
    assert (folder / "runs" / "demo-2" / "report.html").exists()


def test_every_training_that_fails_is_reported_in_one_line(
    folder: Path, short: None, here: Pretender, capsys: pytest.CaptureFixture[str]
) -> None:
    def work(job: Any) -> None:
        raise ValueError("the loss exploded")

    here.work = work
    assert main(["demo", *FLAGS]) == 1
    assert capsys.readouterr().err == (
        "soar: train standard, seed 0 failed: the loss exploded\n"
        "soar: train FGSM, seed 0 failed: the loss exploded\n"
        "soar: train N-FGSM, seed 0 failed: the loss exploded\n"
    )
    assert not (folder / "runs" / "demo" / "report.html").exists()
