"""What has to be done, what is there already, and how long it will take."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from soar.recipes import from_table
from soar.experiments.job import Job


class Store(Protocol):
    """The part of a cache that planning asks."""

    def is_trained(self, key: str, recipe: Any) -> bool:
        """Tell whether a network is there as a whole."""

    def load_result(self, key: str) -> dict[str, Any] | None:
        """Give a measurement, None where there is no whole one."""


@dataclass(frozen=True)
class Plan:
    """Jobs by what becomes of them.

    Args:
        todo: what has to be done, every job after those it needs
        there: what was done before
        unneeded: trainings that nobody needs, because all that would use them is there
        timed_by: how many finished jobs the times of the others go by
    """

    todo: tuple[Job, ...]
    there: tuple[Job, ...] = ()
    unneeded: tuple[Job, ...] = ()
    timed_by: int = 0

    def seconds(self, room: int = 1) -> float:
        """Estimate how long it takes: all work shared, but no less than the longest chain of needs.

        What must run alone is shared with nobody.

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


def plan(jobs: Iterable[Job], cache: Store) -> Plan:
    """Find out what is left to do; a job that several tables ask for is done once.

    Args:
        jobs: what is wanted, with everything that it needs
        cache: what is there
    """
    unique = {job.key: job for job in jobs}
    there = {key for key, job in unique.items() if is_there(job, cache)}
    asked = {key for job in unique.values() for key in job.needs}
    ordered: dict[str, Job] = {}
    for job in unique.values():
        # A network that is only a means is trained where something that uses it is left to do.
        if job.key not in there and not (job.kind == "train" and job.key in asked):
            _take(job, unique, there, ordered)
    return Plan(
        todo=tuple(ordered.values()),
        there=tuple(job for key, job in unique.items() if key in there),
        unneeded=tuple(job for key, job in unique.items() if key not in there and key not in ordered),
    )


def is_there(job: Job, cache: Store) -> bool:
    """Tell whether a job was done before, and what it made is whole."""
    if job.kind == "train":
        return cache.is_trained(job.key, from_table(job.payload["recipe"], job.title))
    return cache.load_result(job.key) is not None


def _take(job: Job, jobs: dict[str, Job], there: set[str], ordered: dict[str, Job]) -> None:
    """Put a job behind everything that it needs."""
    if job.key in ordered:
        return
    for key in job.needs:
        if key not in there and key in jobs:
            _take(jobs[key], jobs, there, ordered)
    ordered[job.key] = job
