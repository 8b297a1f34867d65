"""A real Ray of this machine, where it is installed."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from soar.cli.main import main
from soar.errors import UserError
from soar.experiments.cache import Cache
from soar.experiments.cluster import Cluster, _perform, _require_answer
from soar.experiments.jobs import Event, Job
from soar.experiments.result import Result
from tests.experiments import tiny

ROOT = Path(__file__).parents[2]
SAVES = ("--max_steps", "200", "--save_steps", "1")


@pytest.fixture(scope="module")
def ray() -> Iterator[Any]:
    found = pytest.importorskip("ray", reason="ray is not installed: soar-robust[cluster]")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        # Ray's workers are nice to everything else, and starve on a machine that runs other tests.
        patch.setenv("RAY_worker_niceness", "0")
        found.init(address="local", num_cpus=2, log_to_driver=False, logging_level="ERROR")
        yield found
        found.shutdown()


def bad(cache: Path, number: int, **more: Any) -> Job:
    payload = tiny.training(cache).payload | more
    return Job(key=f"bad-{number}", kind="train", title=f"bad {number}", payload=payload)


def test_without_ray_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UserError, match=r"^a cluster needs .* ray: pip install 'soar-robust\[cluster\]'$"):
        Cluster().run([bad(tmp_path, 1)], lambda _: None)


def test_a_chain_and_a_failure(ray: Any, tmp_path: Path) -> None:
    first = tiny.training(tmp_path)
    second = tiny.training(tmp_path, start=first.key)
    third = tiny.training(tmp_path, start="bad-1")
    heard: list[Event] = []
    endings = Cluster().run([second, third, bad(tmp_path, 1), first], heard.append)
    assert {key: one.status for key, one in endings.items()} == {
        first.key: "done",
        second.key: "done",
        "bad-1": "failed",
        third.key: "skipped",
    }
    assert endings["bad-1"].reason == f"job bad-1: its recipe has another hash, {first.key}"
    assert Cache(tmp_path).is_trained(second.key)
    kinds = [(one.kind, one.job.key) for one in heard]
    assert kinds.index(("ended", first.key)) < kinds.index(("started", second.key))


def test_never_more_at_once_than_the_cluster_has_cpus(ray: Any, tmp_path: Path) -> None:
    now = most = 0

    def listen(event: Event) -> None:
        nonlocal now, most
        now += {"started": 1, "progress": 0, "ended": -1}[event.kind]
        most = max(most, now)

    jobs = [*(bad(tmp_path, number) for number in range(5)), bad(tmp_path, 9, processes=4)]
    assert len(Cluster().run(jobs, listen)) == 6
    assert (now, most) == (0, 2)


def test_what_the_cluster_does_not_have_is_a_failure(ray: Any, tmp_path: Path) -> None:
    endings = Cluster().run([bad(tmp_path, 1, device="cuda")], lambda _: None)
    assert endings["bad-1"].reason == "it needs 1 GPUs, the cluster has 0 (flag --device)"


@pytest.mark.parametrize("address", ["127.0.0.1:{port}", "ray://127.0.0.1:{port}", "127.0.0.1:99999"])
def test_an_address_where_nobody_answers_is_refused_at_once(address: str) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    with pytest.raises(UserError, match=r"^no Ray cluster at '.*127.0.0.1:.*flag --cluster\)$"):
        _require_answer(address.format(port=port))


def test_an_address_where_somebody_answers_and_one_without_a_port_are_left_to_ray() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        _require_answer(address)
    with pytest.raises(UserError):
        _require_answer(address)  # the server is gone: the answer did decide
    for address in ("auto", "local"):
        _require_answer(address)
    _require_answer(None)


def test_a_machine_without_the_cache_folder_says_so(tmp_path: Path) -> None:
    assert "all machines have to share the cache folder" in _perform(bad(tmp_path / "elsewhere", 1))


def test_a_task_whose_process_is_killed_goes_on(ray: Any, tmp_path: Path) -> None:
    job = tiny.training(tmp_path, *SAVES)
    run = Cache(tmp_path).network(job.key)

    def kill() -> None:
        while not [*(run / "checkpoints").glob("step-*")]:
            time.sleep(0.01)
        os.kill(_worker_of(job), signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    endings = Cluster().run([job], lambda _: None)
    killer.join()
    assert endings[job.key].status == "done"
    assert Cache(tmp_path).is_trained(job.key)


def test_the_command_makes_a_table_on_a_cluster(ray: Any, tmp_path: Path) -> None:
    row = "logistic regression, rho 3: penalty"
    words = ["reproduce", "theory", "--scale", "smoke", "--only", row, "--cluster", "--cache", str(tmp_path)]
    assert main(words) == 0
    found = Result.load(tmp_path / "tables" / "theory-smoke.json").rows
    assert [name for name, cells in found.items() if cells["value"].values] == [row]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_lets_tasks_save(ray: Any, tmp_path: Path, number: signal.Signals) -> None:
    job = tiny.training(tmp_path, "--max_steps", "1000000", "--epochs", "100000")
    run = Cache(tmp_path).network(job.key)

    def interrupt() -> None:
        while not (run / "metrics.jsonl").exists() or not (run / "metrics.jsonl").read_text():
            time.sleep(0.01)
        os.kill(os.getpid(), number)

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        Cluster().run([job], lambda _: None)
    assert Cache(tmp_path).condition(job.key).name == "unfinished"
    assert [*(run / "checkpoints").glob("step-*")]


def _worker_of(job: Job) -> int:
    """Find the process that Ray has given the title of the task."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_text()
        except OSError:
            continue
        if command.startswith("ray::") and job.title in command:
            return int(folder.name)
    raise AssertionError(f"no process is called {job.title}")
