from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from soar.cli.main import main
from tests.experiments.made import Pretender

TINY = [
    *("--max_steps", "2", "--batch_size", "16", "--data.validation", "50", "--validation.examples", "10"),
    *("--model.width", "4", "--validation.steps", "1", "--examples", "12"),
    *("--guards.overfitting", "off", "--quiet"),
]
STUDY = """
title = "Do these two differ?"
recipe = "demo-soar"

[[columns]]
kind = "assessment"
attacks = ["fgsm"]
split = "test"

[[columns]]
name = "transfer"
kind = "transfer"
source = "plain"
attack = "pgd"
steps = 2

[[columns]]
name = "trained in"
kind = "record"
what = "seconds"

[[columns]]
name = "CPU time"
kind = "record"
what = "cpu_seconds"

[[rows]]
name = "plain"
recipe = "demo-standard"

[[rows]]
name = "careful"
start_from = "plain"
"""


@pytest.fixture
def study(folder: Path, here: Pretender) -> Path:
    (folder / "mine.toml").write_text(STUDY)
    return folder / "runs" / "study-mine"


def cells(study: Path) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = json.loads((study / "study.json").read_text())["rows"]
    return found


def test_a_study_trains_attacks_and_compares(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["study", "mine.toml", *TINY]) == 0
    shown = capsys.readouterr().out
    assert "Do these two differ?" in shown and "careful" in shown and "transfer" in shown
    rows = cells(study)
    assert list(rows) == ["plain", "careful"]
    assert list(rows["careful"]) == ["clean", "FGSM", "worst case", "transfer", "trained in", "CPU time"]
    assert rows["careful"]["CPU time"]["values"][0] > 0
    assert "values" not in rows["plain"]["transfer"] and 0 <= rows["careful"]["transfer"]["values"][0] <= 100
    assert len(rows["careful"]["worst case"]["correct"]) == 12
    assert (study / "study.txt").read_text() in shown
    recipe = (study / "careful" / "recipe.toml").read_text()
    start = (study / "plain").resolve()
    assert f'networks/{start.name}"' in recipe, "the run of a row is linked, and starts from the other"
    found = json.loads((study / "careful" / "assessment-test.json").read_text())
    assert found["model"] == "careful", "where reports find it, and under its own name"


def test_a_second_call_trains_and_attacks_nothing_again(
    study: Path, here: Pretender, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["study", "mine.toml", *TINY]) == 0
    first, done = capsys.readouterr().out, len(here.done)
    assert main(["study", "mine.toml", *TINY]) == 0
    assert capsys.readouterr().out == first and len(here.done) == done


def test_another_number_of_images_is_attacked_anew_and_nothing_trained(study: Path, here: Pretender) -> None:
    assert main(["study", "mine.toml", *TINY]) == 0
    done = len(here.done)
    assert main(["study", "mine.toml", *TINY, "--examples", "5"]) == 0
    assert json.loads((study / "study.json").read_text())["examples"] == 5
    kept = {path.name for path in (study / "careful").glob("assessment-test*.json")}
    assert kept == {"assessment-test.json", "assessment-test-2.json"}
    assert len(here.done) == done + 4, "two assessments, the points of the source and what they do"


def test_rows_can_be_run_one_by_one_and_share_the_cache(
    study: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["study", "mine.toml", *TINY, "--only", "plain"]) == 0
    assert "not measured yet" in capsys.readouterr().out
    assert not (study / "careful").exists()
    assert main(["study", "mine.toml", *TINY, "--output", "elsewhere"]) == 0
    assert "not measured yet" not in capsys.readouterr().out
    assert (study.parent.parent / "elsewhere" / "plain").resolve() == (study / "plain").resolve()


def test_a_row_that_fails_does_not_stop_the_others(
    study: Path, here: Pretender, capsys: pytest.CaptureFixture[str]
) -> None:
    real = here.work

    def work(job: Any) -> None:
        if job.title.startswith("train careful"):
            raise ValueError("the loss exploded")
        real(job)

    here.work = work
    assert main(["study", "mine.toml", *TINY]) == 1
    rows = cells(study)
    assert rows["plain"]["clean"]["values"] and "values" not in rows["careful"]["clean"]
    assert rows["careful"]["clean"]["missing"].startswith("skipped: it needs ")
    assert rows["careful"]["trained in"]["missing"] == "failed: the loss exploded"
    assert capsys.readouterr().err == "soar: train careful, seed 0 failed: the loss exploded\n"


def test_other_fields_are_other_networks(study: Path) -> None:
    assert main(["study", "mine.toml", *TINY]) == 0
    first = (study / "plain").resolve()
    assert main(["study", "mine.toml", *TINY, "--lr", "0.5"]) == 0
    assert (study / "plain").resolve() != first and first.exists()


def test_a_plan_does_nothing_and_seeds_are_averaged(
    study: Path, here: Pretender, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["study", "mine.toml", *TINY, "--plan", "--seeds", "2"]) == 0
    assert "to train       4 networks" in capsys.readouterr().out and here.done == []
    assert not study.parent.exists()
    assert main(["study", "mine.toml", *TINY, "--seeds", "2"]) == 0
    assert len(cells(study)["careful"]["clean"]["values"]) == 2


@pytest.mark.parametrize(
    "flags, message",
    [
        (["nothing"], "unknown study 'nothing'"),
        (["starts", "--only", "zero strat"], "did you mean 'zero start'"),
        (["starts", "--examples", "0"], "--examples: got 0, expected at least 1"),
        (["starts", "--epoch", "1"], "did you mean '--epochs'"),
    ],
)
def test_mistakes_get_one_line(
    folder: Path, flags: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["study", *flags]) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1
    assert not (folder / "runs").exists()
