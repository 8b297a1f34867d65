from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from soar.cli.main import main
from soar.training import Trainer

TINY = [
    *("--max_steps", "2", "--batch_size", "16", "--data.validation", "50", "--validation.examples", "10"),
    *("--model.width", "4", "--validation.steps", "1", "--examples", "12"),
    *("--guards.overfitting", "off", "--threads", "1", "--quiet"),
]
STUDY = """
description = "Do these two differ?"
recipe = "demo-soar"
attacks = ["fgsm"]
transfer_from = "plain"

[[arms]]
name = "plain"
recipe = "demo-standard"

[[arms]]
name = "careful"
start_from = "plain"
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.toml").write_text(STUDY)
    return tmp_path


def test_a_study_trains_attacks_and_compares(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["study", "mine.toml", *TINY]) == 0
    shown = capsys.readouterr().out
    assert "Do these two differ?" in shown and "careful" in shown and "transfer" in shown
    place = folder / "runs" / "study-mine"
    rows = json.loads((place / "study.json").read_text())["rows"]
    assert [row["arm"] for row in rows] == ["plain", "careful"]
    assert set(rows[1]["accuracy"]) == {"clean", "FGSM", "worst case"}
    assert rows[0]["transfer"] is None and 0 <= rows[1]["transfer"] <= 1
    assert rows[1]["recipe"]["training"]["start_from"].endswith("study-mine/plain")
    assert (place / "study.txt").read_text() == shown


def test_a_second_call_trains_and_attacks_nothing_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["study", "mine.toml", *TINY]) == 0
    first = capsys.readouterr().out
    monkeypatch.setattr(Trainer, "fit", lambda _: pytest.fail("trained again"))
    conducting = sys.modules["soar.studies.conduct"]
    monkeypatch.setattr(conducting, "evaluate", lambda *_, **__: pytest.fail("attacked again"))
    assert main(["study", "mine.toml", *TINY]) == 0
    assert capsys.readouterr().out == first


def test_another_number_of_images_is_attacked_anew(folder: Path) -> None:
    assert main(["study", "mine.toml", *TINY]) == 0
    assert main(["study", "mine.toml", *TINY, "--examples", "5"]) == 0
    found = json.loads((folder / "runs" / "study-mine" / "study.json").read_text())
    assert found["examples"] == 5
    kept = {path.name for path in (folder / "runs" / "study-mine" / "careful").glob("assessment-test*.json")}
    assert kept == {"assessment-test.json", "assessment-test-2.json"}


def test_arms_can_be_run_one_by_one(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["study", "mine.toml", *TINY, "--only", "plain"]) == 0
    assert "not run" in capsys.readouterr().out
    assert not (folder / "runs" / "study-mine" / "careful").exists()
    assert main(["study", "mine.toml", *TINY]) == 0
    assert "not run" not in capsys.readouterr().out


def test_an_arm_that_fails_does_not_stop_the_others(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    broken = STUDY.replace('name = "careful"', 'name = "broken"\n[arms.fields.objective]\nstep = -1.0\n')
    broken = broken.replace('start_from = "plain"', "") + '\n[[arms]]\nname = "last"\n'
    (folder / "mine.toml").write_text(broken)
    assert main(["study", "mine.toml", *TINY]) == 1
    rows = json.loads((folder / "runs" / "study-mine" / "study.json").read_text())["rows"]
    assert [row["status"] for row in rows] == ["finished", "failed", "finished"]
    assert "objective.step: got -1.0" in rows[1]["reason"]
    assert "broken: failed" in capsys.readouterr().out


def test_a_run_with_another_recipe_is_not_taken_for_this_one(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["study", "mine.toml", *TINY]) == 0
    assert main(["study", "mine.toml", *TINY, "--lr", "0.5"]) == 2
    assert "holds a run with another recipe" in capsys.readouterr().err


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
    said = capsys.readouterr().err
    assert message in said and said.count("\n") == 1
    assert not (folder / "runs").exists()
