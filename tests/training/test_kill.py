"""Real processes, killed by real signals at awkward moments, and then resumed.

Processes are forked from a server that has imported torch once, which makes each of them quick to start.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import runpy
import signal
import time
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest

from soar.training import checkpoints
from tests.training import small

VICTIM = Path(__file__).with_name("victim.py")
STEPS = 16


@pytest.fixture(scope="module")
def context() -> Any:
    made = multiprocessing.get_context("forkserver")
    # Optimizers import torch._dynamo at their first use, which takes longer than the training here.
    made.set_forkserver_preload(["torch._dynamo", "soar.training.trainer", "soar.models"])
    return made


def start(context: Any, run: Path, *, resume: bool = False, slow: str = "") -> BaseProcess:
    """Begin a training in a process of its own."""
    options = {"run": str(run), "resume": resume, "slow": slow}
    process: BaseProcess = context.Process(
        target=runpy.run_path, args=(str(VICTIM),), kwargs={"init_globals": {"OPTIONS": options}}
    )
    process.start()
    return process


def wait_for(condition: Callable[[], bool], process: BaseProcess) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert process.is_alive(), "the training ended before the moment to kill it"
        assert time.monotonic() < deadline
        time.sleep(0.001)


def kill(process: BaseProcess, number: signal.Signals) -> None:
    assert process.pid is not None
    os.kill(process.pid, number)
    process.join(60)


@pytest.fixture(scope="module")
def whole(context: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run that nobody disturbed."""
    run = tmp_path_factory.mktemp("whole")
    process = start(context, run)
    process.join(60)
    assert process.exitcode == 0
    return run


def is_writing(run: Path) -> bool:
    return any((run / "checkpoints").glob(".writing-step-*/trainer.pt"))


def has_rows(run: Path, rows: int) -> bool:
    file = run / "metrics.jsonl"
    return file.exists() and len(file.read_text().splitlines()) >= rows


def has_checkpoints(run: Path, number: int) -> bool:
    return len(checkpoints.available(run)) >= number


# Moments of SIGKILL: before the first checkpoint, in the middle of an epoch, while a first and a later
# checkpoint are written, between a checkpoint and the pointer to the best, in a validation.
MOMENTS: dict[str, tuple[str, Callable[[Path], bool]]] = {
    "before any checkpoint": ("step", lambda run: has_rows(run, 2)),
    "between checkpoints": ("step", lambda run: has_rows(run, 12)),
    "while the first checkpoint is written": ("write", is_writing),
    "while a later checkpoint is written": (
        "write",
        lambda run: has_checkpoints(run, 2) and is_writing(run),
    ),
    "before the pointer to the best": ("pointer", lambda run: has_checkpoints(run, 1)),
    "in a validation": ("attack", lambda run: has_rows(run, 8)),
}


@pytest.mark.parametrize("moment", MOMENTS)
def test_killed_and_resumed(context: Any, whole: Path, tmp_path: Path, moment: str) -> None:
    slow, has_come = MOMENTS[moment]
    process = start(context, tmp_path, slow=slow)
    wait_for(lambda: has_come(tmp_path), process)
    kill(process, signal.SIGKILL)
    assert process.exitcode == -signal.SIGKILL
    assert newest_step(tmp_path) < STEPS
    finish(context, tmp_path)
    assert_equal(tmp_path, whole)


def test_killed_again_and_again(context: Any, whole: Path, tmp_path: Path) -> None:
    for rows in (4, 9, 14):
        process = start(context, tmp_path, resume=True, slow="step")
        wait_for(lambda rows=rows: has_rows(tmp_path, rows), process)  # type: ignore[misc]
        kill(process, signal.SIGKILL)
    finish(context, tmp_path)
    assert_equal(tmp_path, whole)


def test_asked_to_stop_and_resumed(context: Any, whole: Path, tmp_path: Path) -> None:
    process = start(context, tmp_path, slow="step")
    wait_for(lambda: has_rows(tmp_path, 5), process)
    kill(process, signal.SIGTERM)
    assert process.exitcode == 0, "it ended by itself"
    result = json.loads((tmp_path / "result.json").read_text())
    assert (result["status"], result["reason"]) == ("interrupted", "SIGTERM")
    assert newest_step(tmp_path) == result["steps"] >= 5, "nothing is lost"
    finish(context, tmp_path)
    assert_equal(tmp_path, whole)


def newest_step(run: Path) -> int:
    newest = checkpoints.newest_usable(run)
    return int(json.loads((newest / "state.json").read_text())["step"]) if newest else 0


def finish(context: Any, run: Path) -> None:
    process = start(context, run, resume=True)
    process.join(60)
    assert process.exitcode == 0
    assert json.loads((run / "result.json").read_text())["status"] == "finished"


def assert_equal(run: Path, whole: Path) -> None:
    """Weights, averages, momentum, scores and metrics, bit for bit; and nothing is left lying about."""
    paths = [root / "checkpoints" / f"step-{STEPS:08}" for root in (run, whole)]
    ours, theirs = (json.loads((path / "state.json").read_text()) for path in paths)
    for state in (ours, theirs):
        del state["seconds"]
    assert ours == theirs, "the SHA-256 of every file is part of the state"
    assert small.rows(run) == small.rows(whole)
    assert checkpoints.best(run) == run / "checkpoints" / best_name(whole)
    assert not list((run / "checkpoints").glob(".writing-*"))


def best_name(run: Path) -> str:
    best = checkpoints.best(run)
    assert best is not None
    return best.name
