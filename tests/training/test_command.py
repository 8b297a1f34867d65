"""The command line, killed by the machine and resumed by the user."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.training import small

pytestmark = pytest.mark.slow

SMALL = [
    *("--training.max_steps", "12", "--training.save_steps", "4", "--training.batch_size", "16"),
    *("--validation.examples", "20", "--model.width", "4", "--threads", "1", "--quiet"),
]


def train(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "soar", "train", *arguments]


def final_digests(run: Path) -> dict[str, str]:
    state = json.loads((run / "checkpoints" / "step-00000012" / "state.json").read_text())
    digests: dict[str, str] = state["sha256"]
    # The state counts seconds.
    del digests["state.json"]
    return digests


def test_killed_by_the_machine_and_resumed_by_the_user(tmp_path: Path) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    subprocess.run(train("demo-robust", "--output", str(whole), *SMALL), check=True)
    process = subprocess.Popen(train("demo-robust", "--output", str(parts), *SMALL))
    while not (parts / "checkpoints" / "step-00000004").exists():
        assert process.poll() is None
        time.sleep(0.001)
    process.send_signal(signal.SIGKILL)
    process.wait(60)
    subprocess.run(train("--resume", str(parts), "--threads", "1", "--quiet"), check=True)
    assert final_digests(parts) == final_digests(whole)
    assert small.rows(parts) == small.rows(whole)
