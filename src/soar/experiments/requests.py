"""From an experiment to jobs: every number, and the training runs and measurements it takes."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from soar.experiments.cache import Cache
from soar.experiments.estimates import measure_seconds, train_seconds
from soar.experiments.experiment import RECORD, Experiment, Measurement, Network
from soar.experiments.jobs import Job
from soar.recipes import Recipe


class Request(NamedTuple):
    """One number of one seed that a table needs."""

    row: str
    column: str
    measurement: Measurement
    network: Network | None
    sources: dict[str, Network]
    seed: int
    larger: Measurement | None = None
    """the same measurement in a larger ball, where that settles a part of this one"""

    @property
    def key(self) -> str:
        """The key its result is stored under; of a record, that of the network."""
        of = self.network.key if self.network else ""
        if self.measurement.kind == RECORD:
            return of
        return self.measurement.key(of, [one.key for one in self.sources.values()], self.seed)


def requests(experiment: Experiment, only: Collection[str] = ()) -> Iterator[Request]:
    """Iterate over every number that an experiment needs, row by row, also those that are missing here.

    Args:
        experiment: what to measure
        only: rows to work on; all when empty
    """
    for row in experiment.rows:
        if only and row.name not in only:
            continue
        # There is one file of weights, and one theory: more seeds would return the same again.
        for seed in range(1 if row.network is None or row.weights else max(row.seeds, experiment.seeds)):
            network = experiment.networks[row.network].with_seed(seed) if row.network else None
            if network and row.weights:
                network = network.with_weights(row.weights)
            for column, measurement in row.columns.items():
                sources = {name: experiment.networks[name].with_seed(seed) for name in measurement.sources}
                larger = measurement.in_larger_ball(row.columns.values())
                yield Request(row.name, column, measurement, network, sources, seed, larger)


def jobs(
    experiment: Experiment,
    cache: Cache,
    *,
    only: Collection[str] = (),
    root: Path | None = None,
    device: str = "cpu",
    processes: int = 1,
) -> list[Job]:
    """Return everything that has to be done for an experiment, each job once and after what it needs.

    Args:
        experiment: what to measure
        cache: where networks and results are kept
        only: rows to work on; all when empty
        root: the folder of all datasets
        device: such as "cpu" or "cuda"
        processes: how many share each training
    """
    # A worker may have another working folder.
    common = {
        "cache": str(cache.folder.absolute()),
        "root": None if root is None else str(root.absolute()),
        "device": device,
    }
    found: dict[str, Job] = {}
    missing = [row.name for row in experiment.rows if row.missing]
    for request in requests(experiment, only):
        if request.row in missing:
            continue
        needs = []
        for one in (request.network, *request.sources.values()):
            if one is not None:
                needs += _training(one, {**common, "processes": processes}, found)
        if request.measurement.kind == RECORD:
            continue
        if request.measurement.kind == "transfer":
            needs.append(_points(request, common, found))
        if request.larger:
            needs.append(request._replace(measurement=request.larger).key)
        job = _measuring(request, common, tuple(dict.fromkeys(needs)))
        found.setdefault(job.key, job)
    return list(found.values())


def _training(one: Network, common: dict[str, Any], found: dict[str, Job]) -> list[str]:
    """Add the training of a network, and before it that of the one it starts from; return its key."""
    if one.weights:
        return []
    before = [] if one.start is None else _training(one.start, common, found)
    payload = {"recipe": _plain(one.recipe), "start": one.start.key if one.start else "", **common}
    job = Job(
        key=one.key,
        kind="train",
        title=f"train {one.title}, seed {one.recipe.seed}",
        payload=payload,
        needs=tuple(before),
        seconds=train_seconds(one.recipe, common["device"]),
        about=one.about,
    )
    found.setdefault(job.key, job)
    return [job.key]


def _points(request: Request, common: dict[str, Any], found: dict[str, Job]) -> str:
    """Add a job that finds points on a source, once for all networks they are shown to; return its key."""
    (source,) = request.sources.values()
    measurement = request.measurement
    points = Measurement(kind="points", options=measurement.options, examples=measurement.examples)
    asked = Request(source.title, request.column, points, source, {}, request.seed)
    job = _measuring(asked, common, (source.key,))
    found.setdefault(job.key, job)
    return job.key


def _measuring(request: Request, common: dict[str, Any], needs: tuple[str, ...]) -> Job:
    measured, measurement = request.network, request.measurement
    of = measured.title if measured else request.row
    payload: dict[str, Any] = {
        "title": of,
        "network": measured.key if measured else "",
        "measurement": {"kind": measurement.kind, "options": dict(measurement.options)},
        "examples": measurement.examples,
        "seed": request.seed,
        "sources": {name: one.key for name, one in request.sources.items()},
        **common,
    }
    if measured is not None and measured.weights:
        payload["given"] = {"weights": measured.weights, "recipe": _plain(measured.recipe)}
    if request.larger:
        payload["larger"] = request._replace(measurement=request.larger).key
    # A measurement with parts is one job for several columns.
    what = measurement.kind if measurement.part else request.column
    return Job(
        key=request.key,
        kind="measure",
        title=f"{what} of {of}, seed {request.seed}",
        payload=payload,
        needs=needs,
        seconds=measure_seconds(measurement, measured.recipe if measured else None, common["device"]),
        alone=measurement.kind == "cost",
    )


def _plain(recipe: Recipe) -> dict[str, Any]:
    """Return a recipe as it comes out of a JSON file, lists in place of tuples."""
    table: dict[str, Any] = json.loads(json.dumps(recipe.as_table()))
    if recipe.training.start_from:
        table["training"]["start_from"] = os.path.abspath(recipe.training.start_from)
    return table
