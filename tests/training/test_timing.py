from __future__ import annotations

import sys
from itertools import count as numbers
from pathlib import Path

import pytest

from soar import recipes
from soar.runs import Run
from soar.training.prepare import prepare
from soar.training.timing import measure
from tests.training import small


def test_seconds_are_those_of_the_clock(tmp_path: Path) -> None:
    ticks = numbers()
    found = measure(small.trainer(tmp_path / "run"), lambda: float(next(ticks)))
    (update,) = found.updates
    # The clock is asked around the wait for a batch and around the update.
    assert update.seconds == 2.0 and update.pass_seconds == 1.0
    validation = found.validation
    assert validation is not None and validation.seconds == pytest.approx(1.0)
    assert found.seconds == pytest.approx(18 * 2.0 + 3 * 0.5 * 1.0)
    assert not (tmp_path / "run").exists()


def test_an_epoch_that_is_shorter_than_the_measurement_begins_again(tmp_path: Path) -> None:
    ticks = numbers()
    found = measure(small.trainer(tmp_path, data=small.dataset(train=8)), lambda: 0.001 * next(ticks))
    assert found.number == 3 and found.updates[0].seconds == pytest.approx(0.002)


def test_memory_is_that_of_the_process(tmp_path: Path) -> None:
    found = measure(small.trainer(tmp_path))
    if sys.platform == "linux":
        assert found.mebibytes is not None and 100 < found.mebibytes < 100_000


@pytest.mark.slow
def test_a_real_training_takes_what_was_planned(tmp_path: Path) -> None:
    """Within a factor of two, on whatever else the machine does; docs/results/plan.txt has the figures."""
    flags = ["--max_steps", "60", "--validation.examples", "100", "--guards.overfitting", "off"]
    run = Run(tmp_path / "run", recipes.load("demo-robust", flags))
    planned = measure(prepare(run, progress="quiet")).seconds
    trainer = prepare(run, progress="quiet")
    run.create()
    real = trainer.fit().seconds
    assert planned is not None and 0.5 < planned / real < 2
