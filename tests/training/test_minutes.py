"""Trainings that last for a time, measured by a clock that the tests set."""

from __future__ import annotations

import json
import signal
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor

from soar import checkpoints
from soar.objectives import Output
from soar.recipes.settings import ValidationSettings
from soar.threat import Linf
from soar.training import stopwatch
from soar.training.length import Length
from soar.training.result import Outcome
from soar.training.trainer import Trainer
from soar.training.validation import Scores
from tests.training import small

LATER = ValidationSettings(every=100, steps=1)


class FakeClock:
    """Both clocks of this process; CPU time goes half as fast."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def read(self, clock: str) -> float:
        return self.seconds / 2 if clock == "cpu" else self.seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> FakeClock:
    fake = FakeClock()
    monkeypatch.setattr(stopwatch, "read", fake.read)
    return fake


class Slow(small.Plain):
    """Every update takes four seconds."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(small.network(), Linf("8/255"))
        self.clock = clock

    def compute(self, x: Tensor, y: Tensor, index: Tensor, step: int) -> Output:
        self.clock.seconds += 4
        return super().compute(x, y, index, step)


def trainer(run: Path, slow: FakeClock, /, **changes: Any) -> Trainer:
    """One minute: fifteen updates."""
    chosen: dict[str, Any] = {"minutes": 1.0, "validation": LATER, "epochs": 5} | changes
    return small.trainer(run, objective=Slow(slow), **chosen)


def train_rows(run: Path) -> list[dict[str, Any]]:
    lines = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    return [row for row in lines if row["kind"] == "train"]


@pytest.mark.parametrize(
    ("changes", "steps"),
    [
        ({}, 15),
        ({"minutes": 61 / 60}, 16),
        ({"minutes": 0.001}, 1),
        ({"clock": "cpu"}, 30),
        ({"epochs": 1}, 15),
        ({"max_steps": 4}, 4),
        ({"max_steps": 100}, 15),
    ],
)
def test_it_ends_with_the_update_that_reaches_the_time(
    tmp_path: Path, clock: FakeClock, changes: dict[str, Any], steps: int
) -> None:
    result = trainer(tmp_path, clock, **changes).fit()
    assert (result.status, result.steps, result.seconds) == ("finished", steps, 4 * steps)
    assert result.last_scores is not None and result.last_scores.step == steps, "the end is validated"
    assert Outcome.load(tmp_path) == Outcome("finished", "", 4 * steps, 2 * steps)
    rows = train_rows(tmp_path)
    assert [row["seconds"] for row in rows] == [4 * step for step in range(1, steps + 1)]
    assert [row["cpu_seconds"] for row in rows] == [2 * step for step in range(1, steps + 1)]
    assert [row["epoch"] for row in rows] == [step / 6 for step in range(1, steps + 1)], "of real images"


def test_everything_that_is_counted_in_epochs_is_stretched(tmp_path: Path, clock: FakeClock) -> None:
    """Fifteen updates are made of the thirty that the schedules count: every other one."""
    changes = {"schedule": "one-cycle", "warmup_epochs": 1.0, "eps_warmup_epochs": 2.0, "lr": 0.6}
    trainer(tmp_path, clock, **changes).fit()
    rows = train_rows(tmp_path)
    rates = [1 / 6, 3 / 6, 5 / 6, *(1 - 2 * place / 24 for place in range(12))]
    assert [row["lr"] for row in rows] == pytest.approx([0.6 * rate for rate in rates])
    radii = [min(1, (2 * step + 1) / 12) * 8 / 255 for step in range(15)]
    assert [row["eps"] for row in rows] == pytest.approx(radii)


def test_milestones_and_weight_perturbation_are_stretched_too(tmp_path: Path, clock: FakeClock) -> None:
    changes = {"schedule": "step", "milestones": (2.5,), "weight_perturbation_after": 4.0}
    made = trainer(tmp_path, clock, weight_perturbation=0.01, **changes)
    made.fit()
    # Perturbed updates pass the network twice: eight seconds, from 80% of the time on.
    steps = [0, *(row["seconds"] for row in train_rows(tmp_path))]
    assert [after - before for before, after in pairwise(steps)] == [4] * 12 + [8] * 2
    assert [row["lr"] for row in train_rows(tmp_path)] == pytest.approx([0.1] * 8 + [0.01] * 6)


def test_a_validation_on_the_way_takes_its_time_and_the_last_does_not(
    tmp_path: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def validate(*_: Any, step: int, **__: Any) -> Scores:
        clock.seconds += 20
        return Scores(step, 0.8, 0.5)

    monkeypatch.setattr("soar.training.trainer.validate", validate)
    changes = {"schedule": "one-cycle", "warmup_epochs": 1e-9, "validation": ValidationSettings(every=1)}
    result = trainer(tmp_path, clock, **changes).fit()
    # Six updates, a validation, four updates, the last validation.
    assert (result.steps, result.seconds) == (10, 6 * 4 + 20 + 4 * 4 + 20)
    done = [row["lr"] for row in train_rows(tmp_path)]
    assert done[6] < done[5] - 3 * (done[4] - done[5]), "the next update knows the time of the validation"


def test_a_validation_that_uses_up_the_time_is_the_last(
    tmp_path: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def validate(*_: Any, step: int, **__: Any) -> Scores:
        clock.seconds += 40
        return Scores(step, 0.8, 0.5)

    monkeypatch.setattr("soar.training.trainer.validate", validate)
    result = trainer(tmp_path, clock, validation=ValidationSettings(every=1)).fit()
    assert (result.status, result.steps, result.seconds) == ("finished", 6, 64)


@pytest.mark.parametrize("at", [1, 9, 15])
def test_a_resumed_training_goes_on_with_its_clock(tmp_path: Path, clock: FakeClock, at: int) -> None:
    whole = trainer(tmp_path / "whole", clock)
    whole.fit()

    def interrupt(step: int) -> None:
        if step == at:
            signal.raise_signal(signal.SIGTERM)

    run = tmp_path / "parts"
    first = trainer(run, clock, sinks=[small.Recorder(interrupt)]).fit()
    assert (first.status, first.steps, first.seconds) == ("interrupted", at, 4 * at)
    clock.seconds += 10_000
    resumed = trainer(run, clock, resume=True)
    clock.seconds += 10_000
    assert resumed.fit().status == "finished"
    assert small.same(small.weights(resumed), small.weights(whole)), "at the same pace, the same bits"
    assert train_rows(run)[-1]["seconds"] == 60
    assert [row["lr"] for row in train_rows(run)] == [row["lr"] for row in train_rows(tmp_path / "whole")]


def test_a_finished_training_stays_finished(tmp_path: Path, clock: FakeClock) -> None:
    trainer(tmp_path, clock).fit()
    clock.seconds += 1
    again = trainer(tmp_path, clock, resume=True).fit()
    assert (again.status, again.steps) == ("finished", 15)


def test_a_checkpoint_without_cpu_seconds_can_be_resumed(
    tmp_path: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer(tmp_path, clock, max_steps=3).fit()
    load = checkpoints.load

    def older(path: Path) -> checkpoints.Snapshot:
        snapshot = load(path)
        del snapshot.state["cpu_seconds"]
        return snapshot

    monkeypatch.setattr(checkpoints, "load", older)
    assert trainer(tmp_path, clock, resume=True).fit().steps == 15


def test_the_bar_shows_the_time_and_the_images_that_it_will_allow(
    tmp_path: Path, clock: FakeClock, capsys: pytest.CaptureFixture[str]
) -> None:
    trainer(tmp_path, clock, progress="plain").fit()
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("training ")]
    assert lines[0].startswith("training  8/120 images  6%")
    assert lines[-1].startswith("training  120/120 images  100%")


def test_without_minutes_time_changes_nothing(tmp_path: Path, clock: FakeClock) -> None:
    slow, fast = trainer(tmp_path / "slow", clock, minutes=None), small.trainer(tmp_path / "fast", epochs=5)
    assert slow.fit().steps == fast.fit().steps == 30
    assert small.same(small.weights(slow), small.weights(fast))


def test_a_schedule_is_never_left_before_the_end() -> None:
    length = Length(small.settings(minutes=1.0, epochs=7), 9)
    just_before = 59.99999999999999
    assert length.position(3, just_before) == 62 and not length.is_over(3, just_before)
    assert length.is_over(0, 60.0)
    assert length.expected_steps(0, 0.0) > 0


@pytest.mark.parametrize(("epochs", "steps"), [(1, 6), (1.5, 9), (0.01, 1)])
def test_epochs_may_end_in_the_middle_of_one(tmp_path: Path, epochs: float, steps: int) -> None:
    result = small.trainer(tmp_path, epochs=epochs, validation=LATER, schedule="one-cycle").fit()
    rows = train_rows(tmp_path)
    assert result.steps == steps
    assert rows[-1]["epoch"] == steps / 6
    assert rows[-1]["lr"] == min(row["lr"] for row in rows), "the schedule ends with the last update"
