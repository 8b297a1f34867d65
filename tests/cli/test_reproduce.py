from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from soar.cli.main import main
from soar.errors import FileError
from soar.evaluation import files
from soar.experiments.jobs import Job
from tests.experiments.made import Pretender

TWO = ["reproduce", "adv_linf", "--scale", "smoke", "--only", "ResNet / Standard", "ResNet / ADV"]
ONE = ["reproduce", "confidence", "--scale", "smoke", "--only", "Standard", "--jobs", "1"]


def test_two_rows_are_trained_measured_and_compared_and_then_are_there(
    folder: Path, here: Pretender, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(TWO) == 0
    shown = capsys.readouterr()
    assert "to train       2 networks" in shown.out and "The numbers mean nothing." in " ".join(
        shown.out.split()
    )
    assert "claims of the paper on our numbers:" in shown.out
    kept = folder / "runs" / "cache" / "tables"
    stored = json.loads((kept / "adv_linf-smoke.json").read_text())
    assert stored["rows"]["ResNet / ADV"]["PGD20"]["paper"] == 42.86
    assert len(stored["rows"]["ResNet / ADV"]["PGD20"]["values"]) == 1
    text = (kept / "adv_linf-smoke.txt").read_text()
    assert text in "\n".join(line.rstrip() for line in shown.out.splitlines()) + "\n"
    assert text.startswith("adv_linf, scale smoke")

    done = list(here.done)
    assert main([*TWO, "--output", "mine"]) == 0
    assert here.done == done, "everything is there"
    assert "to train       no networks" in capsys.readouterr().out
    again = json.loads((folder / "mine" / "adv_linf-smoke.json").read_text())
    assert again["rows"] == stored["rows"]


def test_a_plan_does_nothing(folder: Path, here: Pretender, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "all", "--scale", "smoke", "--plan"]) == 0
    assert "together" in capsys.readouterr().out and list(folder.iterdir()) == [] and here.done == []


def test_what_fails_is_told_and_the_exit_code_is_1(
    folder: Path, here: Pretender, capsys: pytest.CaptureFixture[str]
) -> None:
    real = here.work

    def work(job: Job) -> None:
        if job.title.startswith("train ADV"):
            raise ValueError("the loss exploded")
        real(job)

    here.work = work
    assert main(TWO) == 1
    shown = capsys.readouterr()
    assert "train ADV, seed 0: failed: the loss exploded" in shown.err
    assert "missing: ResNet / ADV: skipped: it needs" in shown.out
    assert shown.err.splitlines()[-1] == "soar: train ADV, seed 0 failed: the loss exploded"
    here.work = real
    assert main([*TWO, "--quiet"]) == 0
    shown = capsys.readouterr()
    assert "skipped" not in shown.out and shown.err == "" and "to train" not in shown.out


@pytest.mark.filterwarnings("default")
def test_a_damaged_network_is_trained_again_and_only_where_a_number_needs_it(
    folder: Path, here: Pretender, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(ONE) == 0
    first = list(here.done)
    (weights,) = (folder / "runs" / "cache" / "networks").glob("*/checkpoints/*/model.safetensors")
    weights.write_bytes(weights.read_bytes()[:-4] + b"xxxx")
    assert main(ONE) == 0
    assert here.done == first, "its numbers are whole, so nobody needs it"
    number = next((folder / "runs" / "cache" / "results").glob("*.json"))
    number.write_text(number.read_text()[:-20])
    capsys.readouterr()
    assert main(ONE) == 0
    assert sorted(here.done[len(first) :]) == sorted([weights.parts[-4], number.stem])
    said = capsys.readouterr().err
    assert "warning" in said and number.name in said
    assert list((folder / "runs" / "cache" / "networks").glob("*.damaged-1")), "nothing is deleted"


def test_a_full_disk_fails_a_job_with_one_line_and_a_later_call_goes_on(
    folder: Path, here: Pretender, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(content: object, path: Path) -> None:
        raise FileError(f"{path}: cannot be written (No space left on device)")

    with monkeypatch.context() as patch:
        patch.setattr(files, "write_json", full)
        patch.setattr("soar.experiments.result.write_json", full)
        assert main(ONE) == 2
    shown = capsys.readouterr()
    assert "failed: " in shown.err
    last = shown.err.splitlines()[-1]
    assert last.endswith("-smoke.json: cannot be written (No space left on device)")
    assert "Traceback" not in shown.err
    assert main(ONE) == 0
    assert "train" not in capsys.readouterr().err, "the network was trained before"


def test_an_interrupted_call_exits_with_130(
    folder: Path, here: Pretender, capsys: pytest.CaptureFixture[str]
) -> None:
    def work(job: Job) -> None:
        raise KeyboardInterrupt

    here.work = work
    assert main(ONE) == 130
    assert capsys.readouterr().err.splitlines()[-1] == "soar: interrupted; the same command resumes from here"


def test_an_interrupted_call_shows_and_keeps_what_is_there(
    folder: Path, here: Pretender, capsys: pytest.CaptureFixture[str]
) -> None:
    real = here.work

    def work(job: Job) -> None:
        if job.kind == "measure" and job.title.startswith("PGD20 "):
            raise KeyboardInterrupt
        real(job)

    here.work = work
    assert main(["reproduce", "adv_linf", "foar", *TWO[2:]]) == 130
    kept = folder / "runs" / "cache" / "tables"
    shown = " ".join(capsys.readouterr().out.split())
    assert "ResNet / ADV" in shown and "not measured yet" in shown
    assert sorted(path.name for path in kept.iterdir()) == ["adv_linf-smoke.json", "adv_linf-smoke.txt"]
    row = json.loads((kept / "adv_linf-smoke.json").read_text())["rows"]["ResNet / Standard"]
    assert len(row["FGSM"]["values"]) == 1 and "values" not in row["PGD20"]


def test_each_training_may_be_shared_by_processes(folder: Path, here: Pretender) -> None:
    shared: list[tuple[str, int]] = []
    here.work = lambda job: shared.append((job.kind, job.payload.get("processes", 1)))
    main(["reproduce", "foar", "--scale", "smoke", "--only", "zero", "--processes", "4", "--quiet"])
    assert ("train", 4) in shared and ("train", 1) not in shared and ("measure", 4) not in shared


@pytest.mark.parametrize(
    "words, message",
    [
        (
            ["adv_lnf", "--scale", "smoke"],
            "unknown table 'adv_lnf' (soar reproduce TABLE); did you mean 'adv_linf'?",
        ),
        (["foar", "--scale", "smal"], "did you mean 'small'?"),
        (
            ["foar", "--scale", "smoke", "--only", "zeroo"],
            "unknown row 'zeroo' (flag --only); did you mean 'zero'?",
        ),
        (["foar", "--scale", "smoke", "--seeds", "0"], "--seeds: got 0, expected at least 1"),
        (["foar", "--scale", "smoke", "--jobs", "0"], "--jobs: got 0, expected at least 1"),
        (["foar", "--scale", "smoke", "--weights", "zero"], "--weights: got 'zero', expected ROW=FILE"),
        (["foar", "--scale", "smoke", "--weights", "zero=no.pt"], "expected a .safetensors file that exists"),
        (["foar", "--scale", "smoke", "--sacle", "x"], "unknown argument '--sacle'"),
    ],
)
def test_mistakes_get_one_line(
    folder: Path, words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["reproduce", *words]) == 2
    said = capsys.readouterr().err
    assert message in said and said.count("\n") == 1
    assert list(folder.iterdir()) == []


def test_a_killed_call_goes_on_where_it_was(
    folder: Path, here: Pretender, capsys: pytest.CaptureFixture[str]
) -> None:
    command = [sys.executable, "-m", "soar", *ONE]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    killed = subprocess.Popen(
        command, env=environment, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert killed.stderr is not None
    for line in killed.stderr:
        if "begun" in line:
            break
    time.sleep(0.5)
    killed.send_signal(signal.SIGTERM)
    _, rest = killed.communicate(timeout=60)
    assert killed.returncode == 130
    assert rest.splitlines()[-1] == "soar: interrupted; the same command resumes from here"
    assert list((folder / "runs" / "cache" / "tables").iterdir()) == []
    assert main(ONE) == 0
    assert "confidence-smoke.json" in capsys.readouterr().out
