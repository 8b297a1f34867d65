from __future__ import annotations

from dataclasses import replace

import pytest

from soar.experiments.job import Ending, Event, Job
from soar.experiments.order import Order, room_beside, width

DONE = Ending("done")


def job(key: str, *needs: str, seconds: float = 0.0, processes: int = 1) -> Job:
    payload = {"processes": processes}
    return Job(key=key, kind="train", title=key.upper(), payload=payload, needs=needs, seconds=seconds)


def started(order: Order, room: int = 9) -> str | None:
    found = order.start(room, alone=False)
    return found.key if found else None


def test_what_is_needed_comes_first() -> None:
    order = Order([job("c", "b"), job("b", "a"), job("a")], lambda _: None)
    for key in ("a", "b", "c"):
        assert started(order) == key
        assert started(order) is None
        order.end(job(key), DONE)
    assert order.is_over and [*order.endings] == ["a", "b", "c"]


def test_the_longest_chain_of_work_comes_first_and_then_the_given_order() -> None:
    jobs = [
        job("x"),
        job("y"),
        job("long", seconds=5),
        job("root", seconds=1),
        job("leaf", "root", seconds=9),
    ]
    order = Order(jobs, lambda _: None)
    assert [started(order) for _ in range(5)] == ["root", "long", "x", "y", None]


def test_what_takes_times_waits_until_nothing_else_runs_and_then_keeps_others_waiting() -> None:
    timing = replace(job("t", seconds=9), alone=True)
    order = Order([timing, job("a"), job("b")], lambda _: None)
    assert [started(order, room=2), started(order, room=1), started(order, room=5)] == ["a", "b", None]
    assert order.start(2, alone=True) is timing
    assert room_beside([timing], 2) == 0 and room_beside([], 2) == 2


def test_what_is_not_among_the_jobs_is_done_already() -> None:
    assert started(Order([job("a", "trained long ago")], lambda _: None)) == "a"


def test_jobs_of_one_key_are_one() -> None:
    order = Order([job("a"), job("a")], lambda _: None)
    assert [started(order), started(order)] == ["a", None]


def test_a_failure_skips_what_needs_it_with_the_reason_and_nothing_else() -> None:
    heard: list[Event] = []
    jobs = [job("a"), job("b", "a"), job("c", "b"), job("d", "a", "b"), job("other")]
    order = Order(jobs, heard.append)
    order.start(1, alone=False)
    order.end(jobs[0], Ending("failed", "no data"))
    assert {key: one.status for key, one in order.endings.items()} == {
        "a": "failed",
        "b": "skipped",
        "c": "skipped",
        "d": "skipped",
    }
    assert {one.reason for key, one in order.endings.items() if key != "a"} == {"it needs 'A', which failed"}
    assert (heard[0].kind, heard[0].job.key) == ("started", "a")
    assert sorted(one.job.key for one in heard if one.kind == "ended") == ["a", "b", "c", "d"]
    assert started(order) == "other"


def test_a_wide_job_waits_for_room_or_runs_alone() -> None:
    order = Order([job("wide", processes=4), job("narrow")], lambda _: None)
    assert started(order, room=2) == "narrow"
    assert started(order, room=2) is None
    found = order.start(2, alone=True)
    assert found is not None and width(found) == 4


def test_a_circle_is_refused() -> None:
    with pytest.raises(ValueError, match="cycle"):
        Order([job("a", "b"), job("b", "a")], lambda _: None)
