"""What has to be done, what is there already, and how long it will take."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol

from soar import checkpoints
from soar.experiments.cache import Cache
from soar.experiments.estimates import START_UP, training_images
from soar.experiments.jobs import Job
from soar.recipes import from_table


class Store(Protocol):
    """The part of a cache that planning needs."""

    def is_trained(self, key: str, recipe: Any) -> bool:
        """Return whether a network is there, whole."""

    def load_result(self, key: str) -> dict[str, Any] | None:
        """Return a measurement, None where there is no whole one."""


@dataclass(frozen=True)
class Plan:
    """Jobs by what becomes of them.

    Args:
        todo: what has to be done, every job after those it needs
        there: what was done before
        unneeded: training runs that nothing needs, because all that would use them is there
        timed_by: how many finished jobs the times of the others are based on
    """

    todo: tuple[Job, ...]
    there: tuple[Job, ...] = ()
    unneeded: tuple[Job, ...] = ()
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


def plan(jobs: Iterable[Job], cache: Store) -> Plan:
    """Find out what is left to do; a job that several tables need is done once.

    Args:
        jobs: what is needed, with everything that it needs itself
        cache: what is there
    """
    unique = {job.key: job for job in jobs}
    there = {key for key, job in unique.items() if is_there(job, cache)}
    needed = {key for job in unique.values() for key in job.needs}
    ordered: dict[str, Job] = {}
    for job in unique.values():
        # A network that is only a means is trained where something that uses it is left to do.
        if job.key not in there and not (job.kind == "train" and job.key in needed):
            _take(job, unique, there, ordered)
    return Plan(
        todo=tuple(ordered.values()),
        there=tuple(job for key, job in unique.items() if key in there),
        unneeded=tuple(job for key, job in unique.items() if key not in there and key not in ordered),
    )


def is_there(job: Job, cache: Store) -> bool:
    """Return whether a job was done before and what it made is whole."""
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


def timed(planned: Plan, cache: Cache) -> Plan:
    """Correct the times of a plan by what finished jobs of the same kind took.

    What an interrupted training has behind it is left out. Where nothing is there, estimates stay the same.

    Args:
        planned: the plan
        cache: what is there, with the time it took
    """
    took = {job.key: seconds for job in planned.there if (seconds := _took(job, cache)) and job.seconds}
    paces = {}
    for kind in ("train", "measure"):
        done = [job for job in planned.there if job.kind == kind and job.key in took]
        paces[kind] = weighted_median([(took[job.key] / job.seconds, job.seconds) for job in done])
    todo = [
        replace(job, seconds=job.seconds * paces[job.kind] * (1 - _share_done(job, cache)))
        for job in planned.todo
    ]
    return replace(planned, todo=tuple(todo), timed_by=len(took))


def weighted_median(weighted: Sequence[tuple[float, float]]) -> float:
    """Return the value with half of the weight on either side; 1 where there is none.

    Args:
        weighted: values and their weights

    >>> weighted_median([(9.0, 1.0), (2.0, 50.0), (1.5, 20.0)]), weighted_median([])
    (2.0, 1.0)
    """
    half, passed = sum(weight for _, weight in weighted) / 2, 0.0
    for value, weight in sorted(weighted):
        passed += weight
        if passed >= half:
            return value
    return 1.0


def _took(job: Job, cache: Cache) -> float | None:
    """Return the seconds that a finished job took, as far as is known."""
    from soar.training.result import Outcome

    if job.kind == "measure":
        found = cache.load_result(job.key)
        return START_UP + found["seconds"] if found and "seconds" in found else None
    run = cache.network(job.key)
    outcome = Outcome.load(run)
    return _without_pauses(run, outcome.seconds) if outcome else None


def _without_pauses(run: Path, seconds: float) -> float:
    """Return what a training run would have taken had all its updates been like most.

    A machine that slept, or was needed elsewhere for a while, says nothing about the next training.

    Args:
        run: where its metrics are
        seconds: wall-clock time of the training
    """
    from soar.training.tracking import METRICS

    try:
        rows = [json.loads(line) for line in (run / METRICS).read_text().splitlines()]
        moments = [row["seconds"] for row in rows if row["kind"] == "train"]
    except (OSError, ValueError, KeyError):
        return seconds
    steps = [later - earlier for earlier, later in pairwise(moments)]
    return min(seconds, statistics.median(steps) * len(moments)) if steps else seconds


def _share_done(job: Job, cache: Cache) -> float:
    """Return how much of a training run is behind it, according to its newest checkpoint."""
    if job.kind != "train" or cache.condition(job.key).name != "unfinished":
        return 0.0
    saved = [one for one in checkpoints.available(cache.network(job.key)) if not checkpoints.damage(one)]
    if not saved:
        return 0.0
    recipe = from_table(job.payload["recipe"], job.title)
    step: int = json.loads((saved[-1] / "state.json").read_text())["step"]
    return min(1.0, step * recipe.training.batch_size / training_images(recipe))
