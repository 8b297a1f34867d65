from __future__ import annotations

import errno
import io
import os
import signal
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import msgspec
import pytest

from soar.errors import UserError
from soar.experiments import measure as measure_package
from soar.experiments import worker
from soar.experiments.cache import Cache, Log
from soar.experiments.jobs import Job
from soar.experiments.worker import main, perform
from tests.experiments import tiny

FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "metrics.jsonl")


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What every measurement finds."""
    table = {"value": 12.5, "low": 1.0, "high": 20.0, "correct": "00000001"}

    def measure(payload: dict[str, Any], log: Log) -> dict[str, Any]:
        log(f"measuring {payload['measurement']['kind']}")
        return table

    monkeypatch.setattr(measure_package, "measure", measure)
    return table


@pytest.fixture(autouse=True)
def _own_handler() -> Any:
    """`main` is made for a process of its own and leaves its handler there."""
    previous = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, previous)


def text_of(job: Job) -> str:
    return msgspec.json.encode(job).decode()


def run(job: Job, monkeypatch: pytest.MonkeyPatch) -> int:
    """Run a job as the process of a worker does, in this process."""
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdin", io.StringIO(text_of(job)))
        patch.setattr(warnings, "showwarning", None)
        return main()


def test_a_job_comes_back_from_text() -> None:
    job = tiny.measurement(Path("c"), "net", "key", source="other")
    assert msgspec.json.decode(text_of(job), type=Job) == job


def test_a_measurement_is_written_once(tmp_path: Path, found: dict[str, Any]) -> None:
    job, said = tiny.measurement(tmp_path, "net"), list[str]()
    perform(job, said.append)
    assert (Cache(tmp_path).load_result("m") or {}).items() >= found.items()
    perform(job, said.append)
    assert said == ["measuring clean"]


def test_a_damaged_result_is_said_set_aside_and_made_again(tmp_path: Path, found: dict[str, Any]) -> None:
    job, said = tiny.measurement(tmp_path, "net"), list[str]()
    perform(job, said.append)
    Cache(tmp_path).result("m").write_text("{")
    with pytest.warns(UserWarning, match="it is not used"):
        perform(job, said.append)
    assert (Cache(tmp_path).load_result("m") or {})["value"] == 12.5
    assert (tmp_path / "results" / "m.json.damaged-1").read_text() == "{"


@pytest.mark.parametrize("role", ["network", "source"])
def test_a_damaged_network_is_not_measured(tmp_path: Path, found: dict[str, Any], role: str) -> None:
    trained = tiny.training(tmp_path)
    perform(trained, lambda _: None)
    recipe = Cache(tmp_path).network(trained.key) / "recipe.toml"
    recipe.write_text(recipe.read_text().replace("[training]", "[training"))
    key, sources = (trained.key, {}) if role == "network" else ("", {"source": trained.key})
    with pytest.raises(UserError, match=r"^the network .* is damaged \(recipe.toml: not a TOML file"):
        perform(tiny.measurement(tmp_path, key, **sources), lambda _: None)
    assert Cache(tmp_path).load_result("m") is None


def test_a_value_that_is_no_number_is_a_failure(tmp_path: Path, found: dict[str, Any]) -> None:
    found["value"] = float("nan")
    with pytest.raises(UserError, match=r"^got nan for a result, expected a finite number$"):
        perform(tiny.measurement(tmp_path, ""), lambda _: None)


@pytest.mark.parametrize("kind", ["train", "measure"])
def test_a_full_disk_is_one_clear_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise FULL

    job = tiny.training(tmp_path) if kind == "train" else tiny.measurement(tmp_path, "")
    monkeypatch.setattr("soar.training.checkpointing.CheckpointManager.log", fail)
    monkeypatch.setattr(measure_package, "measure", fail)
    assert run(job, monkeypatch) == 2
    said = "soar: metrics.jsonl: No space left on device; the same command goes on\n"
    assert capsys.readouterr().err == said
    monkeypatch.undo()
    if kind == "train":
        perform(job, lambda _: None)
        assert Cache(tmp_path).condition(job.key).name == "trained"


@pytest.mark.filterwarnings("default")
def test_warnings_and_progress_go_to_standard_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def measure(*_: Any) -> dict[str, Any]:
        warnings.warn("beware", stacklevel=1)
        print("half", end="", file=sys.stderr)
        print(" a line", file=sys.stderr)
        return {"value": 1.0}

    monkeypatch.setattr(measure_package, "measure", measure)
    assert run(tiny.measurement(tmp_path, ""), monkeypatch) == 0
    assert capsys.readouterr() == ("warning: beware\nhalf a line\n", "")


def test_exit_codes(
    tmp_path: Path,
    found: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    job = tiny.measurement(tmp_path, "")
    assert run(job, monkeypatch) == 0
    assert capsys.readouterr() == ("measuring clean\n", "")
    for name, code in (("SIGTERM", 143), ("SIGINT", 130)):

        def interrupted(*_: Any, name: str = name) -> None:
            os.kill(os.getpid(), signal.Signals[name])

        monkeypatch.setattr(worker, "perform", interrupted)
        assert run(job, monkeypatch) == code


def test_a_mistake_is_one_line_of_a_process(tmp_path: Path) -> None:
    job = tiny.training(tmp_path, "--objective.name", "nonsense\nand more")
    command = [sys.executable, "-m", "soar.experiments.worker"]
    done = subprocess.run(command, input=text_of(job), capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("soar: unknown objective 'nonsense and more'")
    assert done.stderr.count("\n") == 1


def test_a_worker_that_nobody_listens_to_stops_as_if_it_were_asked_to(tmp_path: Path) -> None:
    job = tiny.training(tmp_path, "--max_steps", "1000000", "--epochs", "100000")
    command, pipe = [sys.executable, "-m", "soar.experiments.worker"], subprocess.PIPE
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)
    assert process.stdin is not None and process.stdout is not None and process.stderr is not None
    with process.stdin:
        process.stdin.write(text_of(job))
    with process, process.stdout, process.stderr:
        process.stdout.close()
        assert process.wait(60) == 143
        assert process.stderr.read() == ""
    assert Cache(tmp_path).condition(job.key).name == "unfinished"
