"""From the cache to a table: every number that is there, or why there is none."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from soar.environment import environment
from soar.experiments.cache import Cache, validation_scores
from soar.experiments.experiment import RECORD, Experiment
from soar.experiments.jobs import Ending
from soar.experiments.requests import Request, requests
from soar.experiments.result import SECONDS, Cell, Result

_TIMES = (SECONDS, "cpu_seconds")


def gather(
    experiment: Experiment,
    cache: Cache,
    *,
    endings: Mapping[str, Ending] | None = None,
    again: str = "",
) -> Result:
    """Return the table of an experiment with all numbers that are there, those of earlier calls included.

    Args:
        experiment: what was measured
        cache: where results are kept
        endings: how jobs ended, by key, to explain why a number is missing
        again: the command that would measure what is missing
    """
    wanted: dict[tuple[str, str], list[Request]] = {}
    for request in requests(experiment):
        wanted.setdefault((request.row, request.column), []).append(request)
    rows: dict[str, dict[str, Cell]] = {}
    counted: dict[str, float] = {}
    validation: dict[str, float] = {}
    runs: dict[str, tuple[str, ...]] = {}
    for row in experiment.rows:
        rows[row.name] = {}
        for column in experiment.columns:
            of_seeds = wanted.get((row.name, column), [])
            found = [_read(request, cache) for request in of_seeds]
            counted |= {
                one.key: got.get("seconds", 0.0) for one, got in zip(of_seeds, found, strict=True) if got
            }
            lost = [one for one, got in zip(of_seeds, found, strict=True) if got is None]
            if found and not lost:
                numbers = _numbers([one for one in found if one])
            elif lost and not row.missing:
                numbers = _why(lost, endings or {}, again)
            else:
                numbers = {"missing": row.missing, "command": row.command}
            rows[row.name][column] = Cell(
                paper=row.paper.get(column), paper_std=row.paper_std.get(column), **numbers
            )
        if not row.network or row.missing or row.weights:
            continue
        trained = experiment.networks[row.network]
        seeds = max(row.seeds, experiment.seeds)
        folders = [cache.network(trained.with_seed(seed).key) for seed in range(seeds)]
        runs[row.name] = tuple(map(str, folders))
        if experiment.selects:
            found_scores = [validation_scores(folder).get("robust") for folder in folders]
            scores = [one for one in found_scores if one is not None]
            # A mean of fewer training runs than the others have could win by luck.
            if len(scores) == seeds:
                validation[row.name] = 100 * statistics.fmean(scores)
    measurements = [one for row in experiment.rows for one in row.columns.values()]
    return Result(
        name=experiment.name,
        title=experiment.title,
        scale=experiment.scale,
        seeds=experiment.seeds,
        # Numbers that training itself has written are not of these images.
        examples=max((one.examples for one in measurements if one.kind != RECORD), default=0),
        data=_data(experiment),
        split=_split(experiment),
        unit=experiment.unit,
        units=_units(experiment),
        row_key=experiment.row_key,
        caution=experiment.caution,
        rows=rows,
        runs=runs,
        validation=dict(sorted(validation.items(), key=lambda one: -one[1])),
        seconds=sum(counted.values()),
        environment=environment(),
    )


def _read(request: Request, cache: Cache) -> dict[str, Any] | None:
    """Return what is stored of a request, the part it asks for on top."""
    if request.measurement.kind == RECORD:
        return _recorded(request.measurement.options["what"], cache.network(request.key))
    found = cache.load_result(request.key)
    if found is None or not request.measurement.part:
        return found
    part = found["parts"].get(request.measurement.part)
    return part and {**part, "seconds": found["seconds"]}


def _recorded(what: str, run: Path) -> dict[str, Any] | None:
    """Return a number that training itself has written; None where it has not."""
    from soar.training.result import Outcome

    if what in _TIMES:
        outcome = Outcome.load(run)
        taken = getattr(outcome, what) if outcome else None
        return None if taken is None else {"value": taken}
    scores = validation_scores(run)
    return {"value": 100 * scores[what]} if what in scores else None


def _data(experiment: Experiment) -> str:
    """Return the data of the test images, and the threat where attacks have that of the recipe."""
    names = [row.network for row in experiment.rows if row.network]
    if not names:
        return ""
    recipe = experiment.networks[names[0]].recipe
    kinds = {one.kind for row in experiment.rows for one in row.columns.values()}
    return (
        f"{recipe.data.name}, {recipe.threat.norm} {recipe.threat.eps}"
        if "assessment" in kinds
        else recipe.data.name
    )


def _split(experiment: Experiment) -> str:
    """Return which images of the data were attacked."""
    measurements = [one for row in experiment.rows for one in row.columns.values()]
    return "validation" if any(one.options.get("split") == "validation" for one in measurements) else "test"


def _units(experiment: Experiment) -> dict[str, str]:
    columns = {name: one for row in experiment.rows for name, one in row.columns.items()}
    times = {name: SECONDS for name, one in columns.items() if one.options.get("what") in _TIMES}
    ratios = {
        name: "ratio" for name, one in columns.items() if one.kind == "cost" and experiment.unit == "percent"
    }
    return times | ratios


def _numbers(found: Sequence[dict[str, Any]]) -> dict[str, Any]:
    first = found[0]
    each = first.get("each")
    return {
        "values": tuple(float(one["value"]) for one in found),
        "low": first.get("low"),
        "high": first.get("high"),
        "correct": first.get("correct"),
        "each": None if each is None else tuple(each),
    }


def _why(lost: Sequence[Request], endings: Mapping[str, Ending], again: str) -> dict[str, Any]:
    """Return why results are missing and what would make them."""
    for request in lost:
        for key in (request.key, request.network.key if request.network else ""):
            if key in endings and endings[key].status != "done":
                return {"missing": f"{endings[key].status}: {endings[key].reason}"}
    return {"missing": "not measured yet", "command": again}
