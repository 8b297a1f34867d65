"""A sweep: every place of a grid is trained with several seeds, the best on validation is selected."""

from __future__ import annotations

import hashlib
import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from soar import checkpoints, files
from soar.errors import UserError
from soar.evaluation.files import write_json
from soar.recipes import Recipe
from soar.experiments.grid import Place, Sweep
from soar.experiments.planning.estimates import train_seconds
from soar.experiments.planning.scales import SCALES
from soar.experiments.cache import Cache, recipe_hash
from soar.experiments.job import Ending, Job
from soar.runs import start_weights


@dataclass(frozen=True, kw_only=True)
class Point:
    """One place of the grid and what validation found there.

    Args:
        place: the value of each field
        runs: the run folder of each seed
        robust: robust accuracy on validation of each seed that was trained, a share
        clean: clean accuracy there
        reason: why seeds are missing
    """

    place: Place
    runs: tuple[str, ...]
    robust: tuple[float, ...] = ()
    clean: tuple[float, ...] = ()
    reason: str = ""

    @property
    def name(self) -> str:
        """Write the fields in a line."""
        return name_of(self.place)


def name_of(place: Place) -> str:
    """Write a place of a grid in a line.

    >>> name_of({"objective.beta": "3", "training.lr": "0.1"})
    'objective.beta=3, training.lr=0.1'
    """
    return ", ".join(f"{field}={value}" for field, value in place.items())


def mean_and_std(values: Sequence[float]) -> tuple[float, float | None]:
    """Give the mean, and the standard deviation (n - 1) from two values on.

    >>> mean_and_std([1.0, 3.0])
    (2.0, 1.4142135623730951)
    """
    return statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else None


def trials(
    sweep: Sweep, cache: Cache, *, root: Path | None, device: str
) -> list[tuple[Place, tuple[Job, ...]]]:
    """Make the trainings of every place, one a seed; all recipes are checked here.

    Raises:
        UserError: if a recipe makes no sense, or nothing could be selected by
    """
    made = []
    for place in sweep.places():
        jobs = []
        for recipe in sweep.recipes(place):
            if recipe.data.validation == 0:
                raise UserError(
                    "data.validation: got 0, expected at least 1: a sweep selects on held-out examples"
                    " (flag --data.validation)"
                )
            jobs.append(_job(recipe, f"{name_of(place)}, seed {recipe.seed}", cache, root, device))
        made.append((place, tuple(jobs)))
    return made


def points(
    made: Sequence[tuple[Place, tuple[Job, ...]]], cache: Cache, endings: Mapping[str, Ending]
) -> list[Point]:
    """Read what validation found for the best checkpoint of every training that is whole."""
    found = []
    for place, jobs in made:
        scores, reasons = [], []
        for job in jobs:
            ending = endings.get(job.key)
            if ending is not None and ending.status != "done":
                reasons.append(f"{ending.status}: {ending.reason}")
                continue
            best = checkpoints.best(cache.network(job.key))
            state = json.loads((best / "state.json").read_text()) if best else {}
            if state.get("best"):
                scores.append(state["best"])
            else:
                reasons.append("no validated checkpoint")
        found.append(
            Point(
                place=place,
                runs=tuple(str(cache.network(job.key)) for job in jobs),
                robust=tuple(one["robust"] for one in scores if one["robust"] is not None),
                clean=tuple(one["clean"] for one in scores),
                reason="; ".join(dict.fromkeys(reasons)),
            )
        )
    return found


def selected(found: Sequence[Point], seeds: int) -> Point | None:
    """Give the point with the highest mean robust accuracy on validation, the earlier on a tie.

    Args:
        found: all points
        seeds: how many trainings a point needs to be compared; a mean of fewer could win by luck
    """
    whole = [point for point in found if len(point.robust) == seeds]
    return max(whole, key=lambda point: statistics.fmean(point.robust), default=None)


def save(sweep: Sweep, found: Sequence[Point], path: Path) -> None:
    """Write a sweep as JSON, whole or not at all."""
    from soar.environment import environment

    chosen = selected(found, sweep.seeds)
    content: dict[str, Any] = {
        "format": 1,
        "kind": "sweep",
        "recipe": sweep.recipe,
        "flags": list(sweep.flags),
        "grid": {field: list(values) for field, values in sweep.grid.items()},
        "seeds": sweep.seeds,
        "selected": chosen.place if chosen else None,
        "points": [
            {
                "fields": point.place,
                "robust": list(point.robust),
                "clean": list(point.clean),
                "runs": list(point.runs),
                "reason": point.reason,
            }
            for point in found
        ],
        "environment": environment(),
    }
    write_json(content, path)


def _job(recipe: Recipe, title: str, cache: Cache, root: Path | None, device: str) -> Job:
    recipe = _kept(recipe, cache)
    payload = {
        "recipe": recipe.as_table(),
        "start": "",
        "cache": str(cache.folder),
        "root": None if root is None else str(root),
        "device": device,
        "processes": 1,
    }
    # The estimate is that of the small scale, whose networks have 16 channels.
    width = recipe.model.get("width", 64) / 16
    seconds = train_seconds(recipe, SCALES["small"]) * width**2
    # Named by their content, the weights it starts from count as the worker counts them.
    key = recipe_hash(recipe, Path(recipe.training.start_from or "").stem)
    return Job(key=key, kind="train", title=title, payload=payload, seconds=seconds)


def _kept(recipe: Recipe, cache: Cache) -> Recipe:
    """Keep a copy of the weights that a training starts from, under a name that changes when they do."""
    if not recipe.training.start_from:
        return recipe
    weights = start_weights(recipe.training.start_from).file.read_bytes()
    copy = cache.folder / "weights" / f"{hashlib.sha256(weights).hexdigest()[:16]}.safetensors"
    if not (copy.exists() and copy.read_bytes() == weights):
        files.write(copy, weights)
    return replace(recipe, training=replace(recipe.training, start_from=str(copy.resolve())))
