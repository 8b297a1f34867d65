from __future__ import annotations

import io
import os
import signal
from contextlib import redirect_stderr
from pathlib import Path

import pytest

from soar.errors import UserError
from soar.experiments.cache import Cache
from soar.experiments.training import train
from soar.experiments.worker import perform
from tests.experiments import tiny


def weights(folder: Path, key: str) -> bytes:
    return (Cache(folder).network(key) / "checkpoints" / "step-00000004" / "model.safetensors").read_bytes()


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
def test_a_signal_saves_and_a_later_call_goes_on_to_the_same_weights(tmp_path: Path, name: str) -> None:
    job = tiny.training(tmp_path)
    perform(tiny.training(tmp_path / "whole"), lambda _: None)
    said: list[str] = []

    class Progress(io.StringIO):
        def write(self, text: str) -> int:
            if text.startswith("training") and "training" not in self.getvalue():
                os.kill(os.getpid(), signal.Signals[name])
            return super().write(text)

    with redirect_stderr(Progress()), pytest.raises(KeyboardInterrupt, match=name):
        perform(job, said.append)
    assert said[-1] == f"interrupted by {name} after 1 steps; a checkpoint was saved"
    assert Cache(tmp_path).condition(job.key).name == "unfinished"
    perform(job, lambda _: None)
    assert Cache(tmp_path).condition(job.key).name == "trained"
    assert weights(tmp_path, job.key) == weights(tmp_path / "whole", job.key)


def test_what_is_trained_is_not_trained_again(tmp_path: Path) -> None:
    job, said = tiny.training(tmp_path), list[str]()
    perform(job, lambda _: None)
    before = (Cache(tmp_path).network(job.key) / "metrics.jsonl").stat().st_mtime_ns
    perform(job, said.append)
    assert said == []
    assert (Cache(tmp_path).network(job.key) / "metrics.jsonl").stat().st_mtime_ns == before


def test_a_network_starts_from_another_of_the_cache(tmp_path: Path) -> None:
    first = tiny.training(tmp_path)
    second = tiny.training(tmp_path, start=first.key)
    with pytest.raises(UserError, match=rf"^the network to start from, .*{first.key}, is absent$"):
        perform(second, lambda _: None)
    assert not Cache(tmp_path).network(second.key).exists()
    perform(first, lambda _: None)
    perform(second, lambda _: None)
    assert weights(tmp_path, first.key) != weights(tmp_path, second.key)


def test_a_training_that_explodes_fails_in_one_line(tmp_path: Path) -> None:
    job = tiny.training(tmp_path, "--lr", "1e30")
    for _ in range(2):
        with pytest.raises(UserError, match=r"^training was stopped: step 1: the loss is nan \(.*\)$"):
            perform(job, lambda _: None)


def test_a_job_whose_key_is_of_another_recipe_is_refused(tmp_path: Path) -> None:
    other = tiny.training(tmp_path, "--seed", "1")
    with pytest.raises(UserError, match=r"^job abc: its recipe has another hash"):
        train("abc", other.payload, lambda _: None)


def test_a_mistake_in_the_recipe_leaves_nothing_behind(tmp_path: Path) -> None:
    job = tiny.training(tmp_path, "--objective.name", "nonsense")
    with pytest.raises(UserError, match="unknown objective 'nonsense'"):
        perform(job, lambda _: None)
    assert not Cache(tmp_path).network(job.key).exists()
