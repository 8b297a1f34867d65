from __future__ import annotations

from dataclasses import replace

from soar.experiments.planning.plan import Plan, plan
from tests.experiments.made import Store, measuring, training


def keys(jobs: tuple[object, ...]) -> list[str]:
    return [job.key for job in jobs]  # type: ignore[attr-defined]


def test_what_is_there_is_not_done_again() -> None:
    made = plan([training("net"), measuring("m1", "net"), measuring("m2", "net")], Store("net", "m1"))
    assert keys(made.todo) == ["m2"] and keys(made.there) == ["net", "m1"]


def test_a_network_is_trained_only_for_what_is_left_to_measure() -> None:
    jobs = [training("base"), training("net", "base"), measuring("m", "net")]
    assert keys(plan(jobs, Store("m")).todo) == []
    assert keys(plan(jobs, Store("m")).unneeded) == ["base", "net"]
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
