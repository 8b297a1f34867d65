"""Two commands in one folder at the same time: nothing is lost, and nothing is mixed up."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from soar import runs
from soar.cli.main import main
from soar.evaluation import Assessment, Diagnosis
from soar.locks import reservation, reserved, run_lock
from tests.cli.tiny import TINY

FEW = ["--examples", "8", "--threads", "1", "--quiet"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("concurrent") / "run"
    assert main(["train", "demo-robust", *TINY, "--output", str(path)]) == 0
    return path


def test_a_result_does_not_take_a_name_that_another_process_is_about_to_write(run: Path) -> None:
    with reserved("assessment", run, ".json") as theirs:
        assert main(["evaluate", str(run), *FEW, "--attacks", "fgsm"]) == 0
        assert not theirs.exists()
    assert Assessment.load(run / "assessment-2.json").names == ["clean", "FGSM", "worst case"]


def test_a_file_that_another_process_is_about_to_write_is_refused(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "mine.json"
    words = ["evaluate", str(run), *FEW, "--attacks", "fgsm", "--output", str(output)]
    with reservation(output):
        assert main(words) == 2
    text = f"soar: {output}: another process is writing it; wait for it\n"
    assert capsys.readouterr().err == text and not output.exists()
    assert main(words) == 0 and output.exists()


def test_a_training_is_refused_before_it_writes_anything(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with run_lock(tmp_path / "run"):
        assert main(["train", "demo-robust", *TINY, "--output", str(tmp_path / "run")]) == 2
        assert [path.name for path in (tmp_path / "run").iterdir()] == [".lock"]
    assert "another process is training here; wait for it" in capsys.readouterr().err


def together(*commands: list[str]) -> list[int]:
    """Start all commands at once, and wait for their exit codes."""
    started = [subprocess.Popen([sys.executable, "-m", "soar", *words]) for words in commands]
    return [process.wait(300) for process in started]


@pytest.mark.slow
def test_two_evaluations_and_two_diagnoses_at_once_are_all_kept(run: Path) -> None:
    for path in run.glob("*.json"):
        if path.name.startswith(("assessment", "diagnosis")):
            path.unlink()
    evaluations = [["evaluate", str(run), *FEW, "--attacks", name] for name in ("fgsm", "pgd")]
    assert together(*evaluations) == [0, 0]
    found = [Assessment.load(path) for path in run.glob("assessment*.json")]
    assert sorted(one.names[1] for one in found) == ["FGSM", "PGD-20"]
    diagnoses = [["diagnose", str(run), *FEW, "--seed", seed] for seed in ("1", "2")]
    assert together(*diagnoses) == [0, 0]
    assert sorted(Diagnosis.load(path).seed for path in run.glob("diagnosis*.json")) == [1, 2]
    assert not list(run.glob(".*")) and not list(run.glob("*.partial*"))


@pytest.mark.slow
def test_of_two_trainings_at_once_one_is_refused_and_the_other_is_whole(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    common = ["train", "demo-robust", *TINY, "--output", str(folder)]
    assert sorted(together(*([*common, "--seed", seed] for seed in ("1", "2", "3")))) == [0, 2, 2]
    newest = max((folder / "checkpoints").glob("step-*"))
    assert json.loads((newest / "state.json").read_text())["data"]["seed"] == runs.find(folder).recipe.seed
