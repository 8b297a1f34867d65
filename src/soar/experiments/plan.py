"""What has to be done, what is there already, and how long it will take."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from soar.experiments.cache import Cache
from soar.experiments.estimates import START_UP
from soar.experiments.jobs import Job


@dataclass(frozen=True)
class Plan:
    """Jobs by what becomes of them.

    Args:
        todo: what has to be done, every job after those it needs
        there: what was done before
        timed_by: how many finished jobs the times of the others are based on
    """

    todo: tuple[Job, ...]
    there: tuple[Job, ...] = ()
    timed_by: int = 0

    def seconds(self, room: int = 1) -> float:
        """Estimate how long it takes: all work shared, but no less than the longest chain of needs.

        A job that must run alone shares the time with no other.

        Args:
            room: how many jobs run at once

        >>> first = Job(key="a", kind="train", title="a", payload={}, seconds=60)
        >>> other = Job(key="b", kind="measure", title="b", payload={}, needs=("a",), seconds=20)
        >>> Plan((first, other)).seconds(room=2)
        80.0
        """
        chains: dict[str, float] = {}
        for job in self.todo:
            before = max((chains.get(key, 0.0) for key in job.needs), default=0.0)
            chains[job.key] = before + job.seconds
        alone = float(sum(job.seconds for job in self.todo if job.alone))
        return max(alone + (self.work - alone) / max(room, 1), max(chains.values(), default=0.0))

    @property
    def work(self) -> float:
        """Seconds of one core."""
        return float(sum(job.seconds for job in self.todo))


def plan(jobs: Iterable[Job], cache: Cache) -> Plan:
    """Find out what is left to do; a job that several tables need is done once.

    Args:
        jobs: what is needed, with everything that it needs itself
        cache: what is there
    """
    unique = {job.key: job for job in jobs}
    there = {key for key, job in unique.items() if _is_there(job, cache)}
    needed = {key for job in unique.values() for key in job.needs}
    ordered: dict[str, Job] = {}
    for job in unique.values():
        # A network that is only a means is trained where something that uses it is left to do.
        if job.key not in there and not (job.kind == "train" and job.key in needed):
            _take(job, unique, there, ordered)
    return Plan(tuple(ordered.values()), tuple(job for key, job in unique.items() if key in there))


def _is_there(job: Job, cache: Cache) -> bool:
    if job.kind == "train":
        return cache.is_trained(job.key)
    return cache.load_result(job.key) is not None


def _take(job: Job, jobs: dict[str, Job], there: set[str], ordered: dict[str, Job]) -> None:
    """Put a job behind everything that it needs."""
    if job.key in ordered:
        return
    for key in job.needs:
        if key not in there and key in jobs:
            _take(jobs[key], jobs, there, ordered)
    ordered[job.key] = job


def timed(planned: Plan, cache: Cache) -> Plan:
    """Correct the times of a plan by what finished jobs of the same kind took, where there are any.

    Args:
        planned: the plan
        cache: what is there, with the time it took
    """
    todo, timed_by = list(planned.todo), 0
    for kind in ("train", "measure"):
        done = [job for job in planned.there if job.kind == kind and job.seconds and _took(job, cache)]
        if done:
            pace = sum(_took(job, cache) for job in done) / sum(job.seconds for job in done)
            todo = [replace(job, seconds=job.seconds * pace) if job.kind == kind else job for job in todo]
            timed_by += len(done)
    return replace(planned, todo=tuple(todo), timed_by=timed_by)


def _took(job: Job, cache: Cache) -> float:
    """Return the seconds that a finished job took; 0 where that is not known."""
    from soar.training.result import Outcome

    if job.kind == "measure":
        found = cache.load_result(job.key) or {}
        return START_UP + found["seconds"] if "seconds" in found else 0.0
    outcome = Outcome.load(cache.network(job.key))
    return outcome.seconds if outcome else 0.0
