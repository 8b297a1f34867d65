from __future__ import annotations

import argparse

import pytest

from soar.cli import experiments
from soar.experiments.cluster import Cluster
from soar.experiments.jobs import Ending
from soar.experiments.local import Local, cores
from soar.experiments.plan import Plan
from tests.experiments.made import measuring, training


def asked(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    experiments.add_executor_flags(parser)
    return parser.parse_args(words)


def test_work_is_shared_among_processes_of_this_machine_by_default() -> None:
    executor, room, device = experiments.make_executor(asked("--device", "cpu"))
    assert isinstance(executor, Local) and (executor.processes, executor.threads) == (cores(), 1)
    assert (room, device) == (cores(), "cpu")
    executor, room, _ = experiments.make_executor(asked("--device", "cpu", "--jobs", "3", "--threads", "2"))
    assert isinstance(executor, Local) and (executor.processes, executor.threads, room) == (3, 2, 3)


def test_a_gpu_gets_one_job_at_a_time_unless_more_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(experiments, "choose_device", lambda _: "cuda")
    assert experiments.make_executor(asked())[1:] == (1, "cuda")
    assert experiments.make_executor(asked("--jobs", "2"))[1] == 2


def test_a_cluster_is_asked_for_with_or_without_an_address() -> None:
    for words, address in ((["--cluster"], None), (["--cluster", "10.0.0.1:6379"], "10.0.0.1:6379")):
        executor, room, _ = experiments.make_executor(asked(*words, "--jobs", "64", "--device", "cpu"))
        assert isinstance(executor, Cluster) and executor.address == address and room == 64


def test_failures_are_told_again_but_not_what_followed_from_them(capsys: pytest.CaptureFixture[str]) -> None:
    endings = {"a": Ending("failed", "no room"), "m": Ending("skipped", "it needs a")}
    experiments.print_failures(Plan((training("a"), measuring("m", "a"), training("b"))), endings)
    assert capsys.readouterr().err == "soar: train a failed: no room\n"
