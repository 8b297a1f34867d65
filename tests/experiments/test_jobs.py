from __future__ import annotations

from dataclasses import replace

from soar.experiments.jobs import Ending, Event, Job, JobQueue

DONE = Ending("done")


def job(key: str, *needs: str, seconds: float = 0.0, processes: int = 1) -> Job:
    payload = {"processes": processes}
    return Job(key=key, kind="train", title=key.upper(), payload=payload, needs=needs, seconds=seconds)


RUNNING = Job(key="running", kind="measure", title="other", payload={})


def started(queue: JobQueue, room: int = 9) -> str | None:
    """Start what fits beside a job that runs already."""
    found = queue.start([RUNNING], room + 1)
    return found.key if found else None


def test_what_is_needed_comes_first() -> None:
    queue = JobQueue([job("c", "b"), job("b", "a"), job("a")], lambda _: None)
    for key in ("a", "b", "c"):
        assert started(queue) == key
        assert started(queue) is None
        queue.end(job(key), DONE)
    assert queue.is_empty and [*queue.endings] == ["a", "b", "c"]


def test_a_job_that_measures_times_waits_until_nothing_else_runs_and_keeps_others_waiting() -> None:
    timing = replace(job("t", seconds=9), alone=True)
    queue = JobQueue([timing, job("a"), job("b"), job("c")], lambda _: None)
    assert [started(queue, room=2), started(queue, room=1), started(queue, room=5)] == ["a", "b", "c"]
    assert started(queue, room=5) is None
    assert queue.start([], 2) is timing
    assert JobQueue([job("d")], lambda _: None).start([timing], 2) is None


def test_what_is_not_among_the_jobs_is_done_already() -> None:
    assert started(JobQueue([job("a", "trained long ago")], lambda _: None)) == "a"


def test_jobs_of_one_key_are_one() -> None:
    queue = JobQueue([job("a"), job("a")], lambda _: None)
    assert [started(queue), started(queue)] == ["a", None]


def test_a_failure_skips_what_needs_it_with_the_reason_and_nothing_else() -> None:
    heard: list[Event] = []
    jobs = [job("a"), job("b", "a"), job("c", "b"), job("d", "a", "b"), job("other")]
    queue = JobQueue(jobs, heard.append)
    started(queue, room=1)
    queue.end(jobs[0], Ending("failed", "no data"))
    assert {key: one.status for key, one in queue.endings.items()} == {
        "a": "failed",
        "b": "skipped",
        "c": "skipped",
        "d": "skipped",
    }
    assert {one.reason for key, one in queue.endings.items() if key != "a"} == {"it needs 'A', which failed"}
    assert (heard[0].kind, heard[0].job.key) == ("started", "a")
    assert sorted(one.job.key for one in heard if one.kind == "ended") == ["a", "b", "c", "d"]
    assert started(queue) == "other"


def test_a_wide_job_waits_for_room_or_runs_alone() -> None:
    queue = JobQueue([job("wide", processes=4), job("narrow")], lambda _: None)
    assert started(queue, room=2) == "narrow"
    assert started(queue, room=2) is None
    found = queue.start([], 2)
    assert found is not None and found.processes == 4
