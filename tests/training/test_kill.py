"""Real processes, killed by real signals at awkward moments, and then resumed.

Processes are forked from a server that has imported torch once, which makes each of them quick to start.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import signal
import time
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest

from soar import checkpoints
from tests.training import small, victim

STEPS = 6
PARTS = 4


@pytest.fixture(scope="module")
def context() -> Any:
    made = multiprocessing.get_context("forkserver")
    # Optimizers import torch._dynamo at their first use, which takes longer than the training here.
    made.set_forkserver_preload(["torch._dynamo", "tests.training.victim"])
    return made


def start(context: Any, run: Path, **options: Any) -> BaseProcess:
    """Begin a training in a process of its own, or go on with it."""
    process: BaseProcess = context.Process(target=victim.train, kwargs={"run": str(run), **options})
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
    run = tmp_path_factory.mktemp("whole") / "run"
    finish(context, run)
    return run


def has_rows(run: Path, rows: int) -> bool:
    file = run / "metrics.jsonl"
    return file.exists() and len(file.read_text().splitlines()) >= rows


@pytest.mark.parametrize("part", range(PARTS))
def test_killed_before_every_file_operation(context: Any, whole: Path, tmp_path: Path, part: int) -> None:
    run = tmp_path / "run"
    operations = ending(whole)["operations"]
    assert operations > 100
    for last in range(1 + part, operations + 1, PARTS):
        process = start(context, run, last=last)
        process.join(60)
        assert process.exitcode == -signal.SIGKILL, f"operation {last}"
        finish(context, run)
        assert contents(run) == contents(whole), f"killed before operation {last}"
        shutil.rmtree(run)


@pytest.mark.parametrize("slow, rows", [("step", 2), ("attack", 3), ("step", 5)])
def test_killed_between_file_operations(
    context: Any, whole: Path, tmp_path: Path, slow: str, rows: int
) -> None:
    process = start(context, tmp_path / "run", slow=slow)
    wait_for(lambda: has_rows(tmp_path / "run", rows), process)
    kill(process, signal.SIGKILL)
    finish(context, tmp_path / "run")
    assert contents(tmp_path / "run") == contents(whole)


def test_killed_again_and_again(context: Any, whole: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    for last in (9, 40, 90, 30, 60):
        start(context, run, last=last).join(60)
    finish(context, run)
    assert contents(run) == contents(whole)


def test_images_from_a_file_killed_and_resumed(context: Any, whole: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    for last in (9, 40, 30):
        start(context, run, last=last, streamed=True).join(60)
    finish(context, run, streamed=True)
    assert contents(run) == contents(whole), "as those in memory"


def test_asked_to_stop_and_resumed(context: Any, whole: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    process = start(context, run, slow="step")
    wait_for(lambda: has_rows(run, 3), process)
    kill(process, signal.SIGTERM)
    assert process.exitcode == 0, "it ended by itself"
    result = ending(run)
    assert (result["status"], result["reason"]) == ("interrupted", "SIGTERM")
    newest = checkpoints.newest_usable(run)
    assert newest is not None and newest.name == checkpoints.name_of(result["steps"]), "nothing is lost"
    finish(context, run)
    assert contents(run) == contents(whole)


def finish(context: Any, run: Path, **options: Any) -> None:
    process = start(context, run, **options)
    process.join(60)
    assert process.exitcode == 0
    assert ending(run)["status"] == "finished"


def ending(run: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run.with_suffix(".json").read_text())
    return found


def contents(run: Path) -> dict[str, Any]:
    """Everything that a finished run holds, except for what a clock has measured."""
    found: dict[str, Any] = {}
    for path in sorted(run.rglob("*")):
        name = str(path.relative_to(run))
        if path.name in ("state.json", "outcome.json"):
            found[name] = json.loads(path.read_text())
            del found[name]["seconds"], found[name]["cpu_seconds"]
            # The state's own digest counts the seconds too.
            found[name].get("sha256", {}).pop("state.json", None)
        elif path.name == "metrics.jsonl":
            found[name] = small.rows(run)
        else:
            found[name] = path.read_bytes() if path.is_file() else None
    return found
