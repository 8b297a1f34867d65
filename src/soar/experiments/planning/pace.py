"""How long jobs take here, going by those that are done already."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from soar import checkpoints
from soar.recipes import from_table
from soar.experiments.planning.estimates import START_UP, training_images
from soar.experiments.planning.plan import Plan
from soar.experiments.cache import Cache
from soar.experiments.job import Job
from soar.training.result import Outcome
from soar.training.tracking import METRICS


def timed(planned: Plan, cache: Cache) -> Plan:
    """Correct the times of a plan by what finished jobs of the same kind took.

    What a training that goes on has behind it is left out. Where nothing is there, estimates stay as they
    are.

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
    """Give the value with half of the weight on either side; 1 where there is none.

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
    """Give the seconds that a finished job took, as far as is known."""
    if job.kind == "measure":
        found = cache.load_result(job.key)
        return START_UP + found["seconds"] if found and "seconds" in found else None
    run = cache.network(job.key)
    outcome = Outcome.load(run)
    return _without_pauses(run, outcome.seconds) if outcome else None


def _without_pauses(run: Path, seconds: float) -> float:
    """Give what a training would have taken had all its updates been like most.

    A machine that slept, or was wanted elsewhere for a while, says nothing about the next training.

    Args:
        run: where its metrics are
        seconds: what it took by the clock
    """
    try:
        rows = [json.loads(line) for line in (run / METRICS).read_text().splitlines()]
        moments = [row["seconds"] for row in rows if row["kind"] == "train"]
    except (OSError, ValueError, KeyError):
        return seconds
    steps = [later - earlier for earlier, later in pairwise(moments)]
    return min(seconds, statistics.median(steps) * len(moments)) if steps else seconds


def _share_done(job: Job, cache: Cache) -> float:
    """Give how much of a training is behind it, as its newest checkpoint says."""
    if job.kind != "train" or cache.condition(job.key).name != "unfinished":
        return 0.0
    saved = [one for one in checkpoints.available(cache.network(job.key)) if not checkpoints.damage(one)]
    if not saved:
        return 0.0
    recipe = from_table(job.payload["recipe"], job.title)
    step: int = json.loads((saved[-1] / "state.json").read_text())["step"]
    return min(1.0, step * recipe.training.batch_size / training_images(recipe))
