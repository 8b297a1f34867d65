from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from soar.cli.main import main
from soar.text import duration
from tests.cli.tiny import TINY

PLAN = ["train", "demo-robust", *TINY, "--plan"]
TRAIN = [*TINY[:2], *TINY[4:], "--max_steps", "1"]


def rows(text: str) -> dict[str, str]:
    """What stands after each word at the beginning of a line."""
    return {line[:12].strip(): line[12:] for line in text.splitlines() if line[:1].isalpha()}


def test_a_plan_tells_the_work_and_the_time_and_leaves_no_folder(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(PLAN) == 0
    told = rows(capsys.readouterr().out)
    assert told["data"] == "fashion-mnist-sample: 9,900 images of 1 x 28 x 28, 100 held out"
    assert told["model"].startswith("resnet10: ") and told["objective"] == "adversarial within linf 0.1"
    assert told["batches"] == "32 images, 309 per epoch"
    assert told["updates"].startswith("6 in 0.0194")
    assert re.fullmatch(
        r"2 forward and 2 backward passes, \S+ GFLOP; \S+ s, \S+ ms per pass", told["an update"]
    )
    assert told["validation"].startswith("1 times 20 images, at most 4 forward and 2 backward passes each; ")
    assert re.search(r"\(measured here: cpu, 1 thread, \S+ GFLOP/s\)", told["time"])
    assert told["memory"].endswith("MiB at the peak of this process, data and all")
    assert not [*folder.iterdir()]


def test_a_plan_of_minutes_tells_what_they_allow(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["--minutes", "1.5", "--training.max_steps", "100000000", "--tflops", "0.001"]
    assert main([*PLAN, *flags]) == 0
    told = rows(capsys.readouterr().out)
    assert re.fullmatch(r"about [\d,]+ in 1.5 minutes, \S+ epochs", told["updates"])
    assert told["time"].startswith("1:30 min, "), "the last validation is short"
    assert main([*PLAN, "--minutes", "0.1", "--clock", "cpu"]) == 0
    assert "(measured here: cpu, 1 thread, CPU time, " in rows(capsys.readouterr().out)["time"]


def test_an_assumed_rate_is_called_so(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*PLAN, "--tflops", "0.000001"]) == 0
    told = rows(capsys.readouterr().out)
    operations = float(told["arithmetic"].split()[0])
    assert "(assumed, 0.001 GFLOP/s)" in told["time"]
    assert told["time"].startswith(f"{duration(operations / 1e-6)}, ")


@pytest.mark.parametrize(
    "words, complaint",
    [
        (["train", "--plan"], "which recipe?"),
        (["train", "--resume", "run", "--plan"], "--plan: got together with --resume"),
        (["train", "demo-robust", "--tflops", "3"], "--tflops: got without --plan"),
        ([*PLAN, "--tflops", "0"], "--tflops: got 0.0, expected at least 1e-09"),
        ([*PLAN, "--device", "abacus"], "unknown device 'abacus'"),
        ([*PLAN, "--batch_size", "0"], "training.batch_size"),
    ],
)
def test_mistakes_are_told_in_a_line(
    words: list[str], complaint: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    said = capsys.readouterr().err.strip().splitlines()
    assert len(said) == 1 and complaint in said[0]


def test_two_processes_plan_as_one(tmp_path: Path) -> None:
    words = ["-m", "torch.distributed.run", "--nproc-per-node", "2", "-m", "soar", *PLAN]
    done = subprocess.run([sys.executable, *words], cwd=tmp_path, check=True, capture_output=True, text=True)
    told = rows(done.stdout)
    assert told["batches"].startswith("32 images (16 in each of 2 processes)")
    assert "GFLOP/s per process" in told["time"]
    assert told["exchange"] == "0.075 MiB per update and process"
    assert done.stdout.count("data  ") == 1
    assert not (tmp_path / "runs").exists()


def test_a_plan_needs_no_weights_to_start_from_and_names_those_that_are_missing(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    started = [*PLAN, "--tflops", "1", "--start_from", "runs/demo-standard"]
    assert main(started) == 0
    assert rows(capsys.readouterr().out)["start"] == (
        "the weights of runs/demo-standard, which are not there yet"
    )
    assert main(["train", "demo-standard", *TRAIN, "--output", "runs/demo-standard"]) == 0
    capsys.readouterr()
    assert main(started) == 0
    assert rows(capsys.readouterr().out)["start"] == "the weights of runs/demo-standard"
    assert main([*PLAN, "--tflops", "1"]) == 0
    assert "start" not in rows(capsys.readouterr().out)
