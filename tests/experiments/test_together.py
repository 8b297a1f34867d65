"""A training that is itself data-parallel: two processes of torchrun inside one job."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
import safetensors.torch
import torch

from soar.errors import UserError
from soar.experiments.cache import Cache
from soar.experiments.worker import perform
from tests.experiments import tiny

pytestmark = pytest.mark.slow


def weights(folder: Path, key: str) -> dict[str, torch.Tensor]:
    run = Cache(folder).network(key)
    return safetensors.torch.load_file(run / "checkpoints" / "step-00000004" / "model.safetensors")


def test_two_processes_give_the_weights_of_one(tmp_path: Path) -> None:
    one, two = tiny.training(tmp_path / "one"), tiny.training(tmp_path / "two", processes=2)
    assert one.key == two.key
    said: list[str] = []
    perform(one, lambda _: None)
    perform(two, said.append)
    assert Cache(tmp_path / "two").is_trained(two.key)
    assert any("64/64 images" in line for line in said)
    expected, got = weights(tmp_path / "one", one.key), weights(tmp_path / "two", two.key)
    for name, tensor in expected.items():
        torch.testing.assert_close(got[name], tensor, rtol=1e-4, atol=1e-6)


def test_a_batch_that_cannot_be_shared_is_one_line(tmp_path: Path) -> None:
    job = tiny.training(tmp_path, "--batch_size", "15", processes=2)
    text = r"^training in 2 processes failed: training.batch_size: got 15, expected a multiple of 2 [^\n]*$"
    with pytest.raises(UserError, match=text):
        perform(job, lambda _: None)


def test_a_signal_reaches_all_of_them_and_they_save(tmp_path: Path) -> None:
    job = tiny.training(tmp_path, "--max_steps", "100000", "--epochs", "1000", processes=2)
    command, pipe = [sys.executable, "-m", "soar.experiments.worker"], subprocess.PIPE
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)
    assert process.stdin is not None and process.stdout is not None
    with process:
        process.stdin.write(msgspec.json.encode(job).decode())
        process.stdin.close()
        for line in process.stdout:
            if line.startswith("training"):
                break
        os.kill(process.pid, signal.SIGTERM)
        process.stdout.read()
        assert process.wait(60) == 143
    assert Cache(tmp_path).condition(job.key).name == "unfinished"
    assert [*(Cache(tmp_path).network(job.key) / "checkpoints").glob("step-*")]
