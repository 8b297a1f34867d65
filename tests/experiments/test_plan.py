from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from soar import recipes
from soar.experiments.cache import Cache
from soar.experiments.estimates import training_images
from soar.experiments.plan import Plan, plan, timed
from soar.training.result import Outcome
from tests.experiments.made import Store, measuring, training


def keys(jobs: tuple[object, ...]) -> list[str]:
    return [job.key for job in jobs]  # type: ignore[attr-defined]


def test_what_is_there_is_not_done_again() -> None:
    made = plan([training("net"), measuring("m1", "net"), measuring("m2", "net")], Store("net", "m1"))
    assert keys(made.todo) == ["m2"] and keys(made.there) == ["net", "m1"]


def test_a_network_is_trained_only_for_what_is_left_to_measure() -> None:
    jobs = [training("base"), training("net", "base"), measuring("m", "net")]
    assert keys(plan(jobs, Store("m")).todo) == []
    assert keys(plan(jobs, Store()).todo) == ["base", "net", "m"]
    assert keys(plan(jobs, Store("net")).todo) == ["m"], "whoever started from a network needs it no more"


def test_a_training_that_nothing_needs_is_wanted_for_itself() -> None:
    assert keys(plan([training("a"), training("b")], Store("a")).todo) == ["b"]


def test_needs_come_first_whatever_the_order_and_shared_jobs_come_once() -> None:
    jobs = [measuring("m", "net"), training("net", "base"), training("base"), training("net", "base")]
    assert keys(plan(jobs, Store()).todo) == ["base", "net", "m"]


def test_time_is_shared_among_processes_but_not_below_the_longest_chain() -> None:
    free = Plan(tuple(training(name, seconds=60) for name in "abcd"))
    assert free.work == 240 and free.seconds(2) == 120 and free.seconds(8) == 60
    chain = plan([training("a"), training("b", "a"), measuring("m", "b")], Store())
    assert chain.seconds(8) == 125
    assert Plan(()).seconds(4) == 0


def test_what_must_run_alone_is_shared_with_nobody() -> None:
    timing = replace(measuring("t", seconds=30), alone=True)
    assert Plan((timing, measuring("a", seconds=10), measuring("b", seconds=10))).seconds(room=2) == 40.0


def test_times_are_based_on_jobs_of_the_same_kind(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    for key, seconds in (("a", 350.0), ("b", 90.0)):
        cache.network(key).mkdir(parents=True)
        Outcome("finished", "", seconds).save(cache.network(key))
    cache.save_result("m", {"value": 1.0, "seconds": 1.0})
    there = (training("a", seconds=100), training("b", seconds=10), measuring("m", seconds=8))
    planned = timed(Plan((training("c", seconds=50), measuring("n", seconds=8)), there), cache)
    assert [job.seconds for job in planned.todo] == [200.0, 4.0] and planned.timed_by == 3
    assert planned.there == there


def test_where_nothing_is_known_times_stay_as_they_are(tmp_path: Path) -> None:
    planned = Plan((training("c", seconds=50),), (measuring("lost"), measuring("m", seconds=0.0)))
    assert timed(planned, Cache(tmp_path)) == planned


def test_images_of_a_training_that_is_cut_short() -> None:
    assert training_images(recipes.load("cifar10-standard-small", ["--max_steps", "3"])) == 3 * 128
