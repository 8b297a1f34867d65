from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from soar import recipes
from soar.reproduce.planning.pace import timed, weighted_median
from soar.reproduce.planning.plan import Plan
from soar.reproduce.running.cache import Cache
from soar.reproduce.running.training import train
from soar.training.result import Outcome
from tests.reproduce import tiny
from tests.reproduce.made import measuring, training


def test_times_go_by_what_jobs_of_the_same_kind_took(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    for key, seconds in (("a", 300.0), ("b", 90.0)):
        cache.network(key).mkdir(parents=True)
        Outcome("finished", "", seconds).save(cache.network(key))
    cache.save_result("m", {"value": 1.0, "seconds": 1.0})
    there = (training("a", seconds=100), training("b", seconds=10), measuring("m", seconds=8))
    planned = timed(Plan((training("c", seconds=50), measuring("n", seconds=8)), there), cache)
    assert [job.seconds for job in planned.todo] == [150.0, 4.0] and planned.timed_by == 3
    assert planned.there == there


@pytest.mark.parametrize(
    "moments, expected",
    [
        ([1.0, 2.0, 3.0, 1000.0, 1001.0], 5.0),  # asleep for a while
        ([1.0, 2.0, 3.0, 4.0, 5.0], 5.0),
        ([7.0], 2000.0),
        ([], 2000.0),
    ],
)
def test_a_pause_of_the_machine_does_not_count(tmp_path: Path, moments: list[float], expected: float) -> None:
    cache = Cache(tmp_path)
    run = cache.network("a")
    run.mkdir(parents=True)
    Outcome("finished", "", 2000.0).save(run)
    rows = [{"kind": "train", "seconds": moment} for moment in moments]
    rows.insert(1, {"kind": "validation", "seconds": 2.5})
    (run / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    planned = timed(Plan((training("c", seconds=1.0),), (training("a", seconds=1.0),)), cache)
    assert planned.todo[0].seconds == expected


def test_where_nothing_is_known_times_stay_as_they_are(tmp_path: Path) -> None:
    planned = Plan((training("c", seconds=50),), (measuring("lost"), measuring("m", seconds=0.0)))
    assert timed(planned, Cache(tmp_path)) == planned


def test_what_a_training_has_behind_it_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from soar.training.trainer import Trainer

    cache = Cache(tmp_path)
    job = tiny.training(tmp_path, "--max_steps", "8", "--save_steps", "2")
    ending = Trainer._ending

    def stop_half_way(trainer: Trainer, trouble: str | None) -> object:
        return ("interrupted", "SIGTERM") if trainer.state.step == 4 else ending(trainer, trouble)

    monkeypatch.setattr(Trainer, "_ending", stop_half_way)
    with pytest.raises(KeyboardInterrupt):
        train(job.key, job.payload, lambda _: None)
    (left,) = timed(Plan((replace(job, seconds=100.0),)), cache).todo
    assert left.seconds == pytest.approx(50.0)


@given(st.lists(st.tuples(st.floats(0.1, 10), st.floats(0.1, 100)), min_size=1))
def test_the_median_is_one_of_the_values_with_half_of_the_weight_on_either_side(
    weighted: list[tuple[float, float]],
) -> None:
    median = weighted_median(weighted)
    whole = sum(weight for _, weight in weighted)
    assert median in [value for value, _ in weighted]
    assert sum(weight for value, weight in weighted if value < median) <= whole / 2 + 1e-9
    assert sum(weight for value, weight in weighted if value > median) <= whole / 2 + 1e-9


def test_images_of_a_training_that_is_cut_short() -> None:
    from soar.reproduce.planning.estimates import training_images

    assert training_images(recipes.load("cifar10-standard-small", ["--max_steps", "3"])) == 3 * 128
