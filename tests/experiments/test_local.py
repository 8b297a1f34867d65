"""Real processes: what each test starts takes seconds, mostly to import torch."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from soar.experiments import local
from soar.experiments.cache import Cache
from soar.experiments.jobs import Event, Job
from soar.experiments.local import Local
from tests.experiments import tiny


def bad(cache: Path, number: int) -> Job:
    """A job that its worker refuses before it imports torch."""
    job = tiny.training(cache)
    return Job(key=f"bad-{number}", kind="train", title=f"bad {number}", payload=job.payload)


def test_jobs_in_their_order_with_news_and_failures_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    first = tiny.training(tmp_path)
    second = tiny.training(tmp_path, start=first.key)
    heard: list[Event] = []
    endings = Local(2, threads=1).run([second, bad(tmp_path, 1), first], heard.append)
    assert {key: one.status for key, one in endings.items()} == {
        "bad-1": "failed",
        first.key: "done",
        second.key: "done",
    }
    assert endings["bad-1"].reason == f"job bad-1: its recipe has another hash, {first.key}"
    of_first = [one.kind for one in heard if one.job == first]
    assert of_first[0] == "started" and of_first[-1] == "ended" and "progress" in of_first
    kinds = [(one.kind, one.job.key) for one in heard]
    assert kinds.index(("ended", first.key)) < kinds.index(("started", second.key))
    assert any("64/64 images" in one.text for one in heard)
    assert Cache(tmp_path).is_trained(second.key)
    environment = (Cache(tmp_path).network(first.key) / "environment.json").read_text()
    assert json.loads(environment)["threads"] == 1


def test_never_more_at_once_than_allowed(tmp_path: Path) -> None:
    now = most = 0

    def listen(event: Event) -> None:
        nonlocal now, most
        now += {"started": 1, "progress": 0, "ended": -1}[event.kind]
        most = max(most, now)

    endings = Local(2).run([bad(tmp_path, number) for number in range(5)], listen)
    assert len(endings) == 5
    assert (now, most) == (0, 2)


def test_what_takes_times_runs_alone(tmp_path: Path) -> None:
    now: set[str] = set()
    beside: dict[str, int] = {}

    def listen(event: Event) -> None:
        if event.kind == "ended":
            now.discard(event.job.key)
        elif event.kind == "started":
            now.add(event.job.key)
            for key in now:
                beside[key] = max(beside.get(key, 0), len(now) - 1)

    timings = [replace(bad(tmp_path, number), alone=True) for number in (0, 1)]
    Local(2).run([*timings, bad(tmp_path, 2), bad(tmp_path, 3)], listen)
    assert beside == {"bad-0": 0, "bad-1": 0, "bad-2": 1, "bad-3": 1}


def test_threads_and_processes_fit_the_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "cores", lambda: 8)
    assert [Local().processes, Local(threads=2).processes, Local(threads=9).processes] == [8, 4, 1]


def test_a_process_that_cannot_be_started_is_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "no python"))
    endings = Local(1).run([bad(tmp_path, 1), bad(tmp_path, 2)], lambda _: None)
    assert {one.reason for one in endings.values()} == {
        "no process could be started for it (No such file or directory)"
    }
