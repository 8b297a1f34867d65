from __future__ import annotations

import builtins
import errno
import json
import math
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from soar.errors import UserError
from soar.training.tracking import MetricsFile, TensorBoard, WandB, open_sinks


def read(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def test_rows_are_there_as_soon_as_they_are_logged(tmp_path: Path) -> None:
    metrics = MetricsFile(tmp_path)
    metrics.log(1, {"kind": "train", "loss": 0.1})
    assert read(tmp_path) == [{"step": 1, "kind": "train", "loss": 0.1}]
    metrics.log(2, {"loss": math.inf, "other": math.nan})
    assert read(tmp_path)[1] == {"step": 2, "loss": None, "other": None}, "JSON has no infinity"
    metrics.sync()
    metrics.close()
    assert metrics.rows == 2


def test_rows_after_the_checkpoint_are_dropped_also_half_written_ones(tmp_path: Path) -> None:
    with (tmp_path / "metrics.jsonl").open("w") as file:
        file.write('{"step": 1}\n{"step": 2}\n{"step": 3}\n{"ste')
    metrics = MetricsFile(tmp_path, rows=2)
    metrics.log(3, {"again": 1.0})
    metrics.close()
    assert read(tmp_path) == [{"step": 1}, {"step": 2}, {"step": 3, "again": 1.0}]
    assert [path.name for path in tmp_path.iterdir()] == ["metrics.jsonl"]


def test_rows_that_are_missing_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"metrics.jsonl is missing"):
        MetricsFile(tmp_path, rows=1)
    (tmp_path / "metrics.jsonl").write_text('{"step": 1}\n')
    with pytest.raises(UserError, match=r"has 1 rows, but the checkpoint was made after 5"):
        MetricsFile(tmp_path, rows=5)


@pytest.mark.filterwarnings("default::DeprecationWarning")
def test_tensorboard_reads_back_what_was_logged_and_resumed(tmp_path: Path) -> None:
    for steps in ((1, 2, 3), (3, 4)):
        board = TensorBoard(tmp_path)
        for step in steps:
            board.log(step, {"kind": "train", "loss": step / len(steps)})
        board.close()
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    found = {event.step: event.value for event in events.Scalars("train/loss")}
    assert found == pytest.approx({1: 1 / 3, 2: 2 / 3, 3: 3 / 2, 4: 2.0})


def test_a_sink_without_rows_makes_no_files(tmp_path: Path) -> None:
    TensorBoard(tmp_path).close()
    assert list(tmp_path.iterdir()) == []


class Disk:
    """A file on a disk that has room for so many bytes."""

    def __init__(self, file: Any, room: int) -> None:
        self.file, self.room = file, room

    def write(self, data: bytes) -> int:
        if not self.room:
            raise OSError(errno.ENOSPC, "No space left on device")
        written: int = self.file.write(data[: self.room])
        self.room -= written
        return written

    def fileno(self) -> int:
        number: int = self.file.fileno()
        return number

    def close(self) -> None:
        self.file.close()


def test_rows_wait_for_room_on_a_full_disk(tmp_path: Path) -> None:
    made = MetricsFile(tmp_path)
    made.log(1, {"loss": 0.5})
    disk = Disk(made._file, room=10)
    made._file = disk  # type: ignore[assignment]
    text = r"metrics.jsonl: cannot be written \(No space left on device\); rows wait until it can"
    with pytest.warns(UserWarning, match=text):
        made.log(2, {"loss": 0.4})
    made.log(3, {"loss": 0.3})  # said once, so this does not warn again
    with pytest.raises(OSError, match="No space left"):
        made.sync()
    assert made.rows == 3
    disk.room = 1000
    made.log(4, {"loss": 0.2})
    made.sync()
    made.close()
    rows = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows] == [1, 2, 3, 4]


def test_metrics_that_cannot_be_opened_are_one_line(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").mkdir()
    with pytest.raises(UserError, match=r"metrics.jsonl: cannot be opened \(Is a directory\)"):
        MetricsFile(tmp_path)


class FakeWandB(ModuleType):
    """Behaves as far as the sink uses it."""

    def __init__(self) -> None:
        super().__init__("wandb")
        self.settings: dict[str, Any] = {}
        self.logged: list[tuple[int, dict[str, float]]] = []
        self.finished = False

    def init(self, **settings: Any) -> FakeWandB:
        self.settings = settings
        return self

    def log(self, figures: dict[str, float], step: int) -> None:
        self.logged.append((step, figures))

    def finish(self) -> None:
        self.finished = True


def test_wandb_gets_the_numbers_and_continues_the_same_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = FakeWandB()
    monkeypatch.setitem(sys.modules, "wandb", fake)
    [sink] = open_sinks(["wandb"], tmp_path / "soar-3", {"seed": 3})
    assert fake.settings == {}, "nothing is sent before there is something to send"
    sink.log(1, {"kind": "validation", "robust": 0.4})
    sink.close()
    assert fake.settings == {
        "project": "soar",
        "name": "soar-3",
        "id": "soar-3",
        "resume": "allow",
        "dir": str(tmp_path / "soar-3"),
        "config": {"seed": 3},
    }
    assert fake.logged == [(1, {"validation/robust": 0.4})]
    assert fake.finished
    WandB(tmp_path, {}).close()


@pytest.mark.parametrize("name", ["tensorboard", "wandb"])
def test_a_missing_package_is_named_with_its_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(UserError, match=rf"needs the package {name}: pip install 'soar-robust\[{name}\]'"):
        open_sinks([name], tmp_path, {})


def test_an_unknown_tracker(tmp_path: Path) -> None:
    text = "unknown tracker 'tensorbord' .--track.; did you mean 'tensorboard'"
    with pytest.raises(UserError, match=text):
        open_sinks(["tensorbord"], tmp_path, {})


def test_trackers_are_imported_only_when_used(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__
    imported: list[str] = []

    def spy(name: str, *arguments: Any, **options: Any) -> Any:
        imported.append(name)
        return real(name, *arguments, **options)

    monkeypatch.delitem(sys.modules, "soar.training.tracking")
    monkeypatch.setattr(builtins, "__import__", spy)
    import soar.training.tracking  # noqa: F401

    assert not {"wandb", "tensorboard", "torch.utils.tensorboard"} & set(imported)
