"""From an experiment to jobs: trainings and measurements, with what each needs and how long it may take."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from soar.recipes import Recipe
from soar.experiments.measuring.measurement import Experiment, Measurement, RowPlan
from soar.experiments.planning.estimates import LEFT_BY_LARGER_BALL, measure_seconds, train_seconds
from soar.experiments.planning.networks import Network, network, with_weights
from soar.experiments.planning.scales import Scale
from soar.experiments.cache import Cache
from soar.experiments.job import Job

NO_WEIGHTS: Mapping[str, str] = {}


class Wish(NamedTuple):
    """One number of one seed that is wanted."""

    row: str
    column: str
    measurement: Measurement
    network: Network | None
    sources: dict[str, Network]
    examples: int
    seed: int
    larger: Measurement | None = None
    """the same in a larger ball, where that answers for a part of this one"""

    @property
    def larger_key(self) -> str:
        """What the result in the larger ball is stored under; empty where there is none."""
        return self._replace(measurement=self.larger).key if self.larger else ""

    @property
    def key(self) -> str:
        """What its result is stored under."""
        of = self.network.key if self.network else ""
        sources = [one.key for one in self.sources.values()]
        return self.measurement.key(of, sources, self.examples, self.seed)


def jobs(
    experiment: Experiment,
    scale: Scale,
    cache: Cache,
    *,
    seeds: int = 1,
    only: Collection[str] = (),
    root: Path | None = None,
    device: str = "cpu",
    weights: Mapping[str, str] = NO_WEIGHTS,
) -> list[Job]:
    """Give everything that has to be done for an experiment, each job once and after what it needs.

    Args:
        experiment: what a table needs
        scale: how large
        cache: where networks and results are kept
        seeds: how many trainings of each network, with the seeds 0, 1, ...
        only: rows to do; all when empty
        root: the folder of all data sets
        device: such as "cpu" or "cuda"
        weights: files of the user's own by row, in place of trainings
    """
    common = {"cache": str(cache.folder), "root": None if root is None else str(root), "device": device}
    found: dict[str, Job] = {}
    missing = [row.name for row in experiment.rows if row.missing and row.name not in weights]
    for wish in wishes(experiment, scale, seeds=seeds, only=only, weights=weights):
        if wish.row in missing:
            continue
        needs = []
        for one in (wish.network, *wish.sources.values()):
            if one is not None:
                needs += _trainings(one, scale, common, found)
        if wish.measurement.kind == "transfer":
            needs.append(_points(wish, scale, common, found))
        if wish.larger:
            needs.append(wish.larger_key)
        job = _measuring(wish, scale, common, tuple(dict.fromkeys(needs)))
        found.setdefault(job.key, job)
    return list(found.values())


def keys(
    experiment: Experiment,
    scale: Scale,
    *,
    seeds: int = 1,
    only: Collection[str] = (),
    weights: Mapping[str, str] = NO_WEIGHTS,
) -> dict[str, dict[str, tuple[str, ...]]]:
    """Give under which keys the results of every cell are stored, by row and column, one a seed.

    Rows that cannot be measured here have keys too: they may have been measured while their data were there.
    """
    found: dict[str, dict[str, tuple[str, ...]]] = {}
    for wish in wishes(experiment, scale, seeds=seeds, only=only, weights=weights):
        cells = found.setdefault(wish.row, {})
        cells[wish.column] = (*cells.get(wish.column, ()), wish.key)
    return found


def wishes(
    experiment: Experiment, scale: Scale, *, seeds: int, only: Collection[str], weights: Mapping[str, str]
) -> Iterator[Wish]:
    """Give every number that is wanted, row by row, also those that cannot be measured here."""
    for row in experiment.rows:
        own = weights.get(row.name)
        if only and row.name not in only:
            continue
        # There is one file of weights, and one theory: more seeds would give the same again.
        for seed in range(seeds if row.network is not None and own is None else 1):
            yield from _row(row, scale, seed, own)


def chosen(experiment: Experiment, scale: Scale, cache: Cache, *, seed: int = 0) -> dict[str, float]:
    """Give the robust validation accuracy of every row that is trained, in percent, best first.

    This is what a value of a sweep is to be selected by; the paper selected on the test set.

    Args:
        experiment: that of a sweep
        scale: how large
        cache: where networks are kept
        seed: of the trainings
    """
    scores = {}
    for row in experiment.rows:
        if row.network is not None and not row.missing:
            score = validation_score(cache.network(network(row.network, scale, seed).key))
            if score is not None:
                scores[row.name] = 100 * score
    return dict(sorted(scores.items(), key=lambda one: -one[1]))


def validation_score(run: Path) -> float | None:
    """Read the robust accuracy on held-out images of a run's best checkpoint; None where there is none."""
    from soar import checkpoints

    best = checkpoints.best(run)
    if best is None:
        return None
    scores = json.loads((best / "state.json").read_text())["best"]
    robust: float | None = scores["robust"] if scores else None
    return robust


def _row(row: RowPlan, scale: Scale, seed: int, own: str | None) -> Iterator[Wish]:
    measured = None if row.network is None else network(row.network, scale, seed)
    if measured is not None and own is not None:
        measured = with_weights(measured, own)
    for column, measurement in row.columns.items():
        sources = {name: network(name, scale, seed) for name in measurement.sources}
        examples = 0 if measured is None else scale.examples_for(measurement.options.get("attack", ""))
        larger = measurement.in_larger_ball(row.columns.values())
        yield Wish(row.name, column, measurement, measured, sources, examples, seed, larger)


def _trainings(one: Network, scale: Scale, common: dict[str, Any], found: dict[str, Job]) -> list[str]:
    """Note the training of a network, and before it that of the one it starts from; give its key."""
    if one.weights:
        return []
    before = [] if one.start is None else _trainings(one.start, scale, common, found)
    payload = {"recipe": _plain(one.recipe), "start": one.start.key if one.start else "", "processes": 1}
    job = Job(
        key=one.key,
        kind="train",
        title=f"train {one.title}, seed {one.recipe.seed}",
        payload={**payload, **common},
        needs=tuple(before),
        seconds=train_seconds(one.recipe, scale),
    )
    found.setdefault(job.key, job)
    return [job.key]


def _points(wish: Wish, scale: Scale, common: dict[str, Any], found: dict[str, Job]) -> str:
    """Note that points are to be found on a source, once for all networks that they are shown to."""
    (source,) = wish.sources.values()
    points = Measurement("points", wish.measurement.options)
    asked = Wish(source.title, wish.column, points, source, {}, wish.examples, wish.seed)
    job = _measuring(asked, scale, common, (source.key,))
    found.setdefault(job.key, job)
    return job.key


def _measuring(wish: Wish, scale: Scale, common: dict[str, Any], needs: tuple[str, ...]) -> Job:
    measured, measurement = wish.network, wish.measurement
    payload: dict[str, Any] = {
        "network": measured.key if measured else "",
        "measurement": {"kind": measurement.kind, "options": dict(measurement.options)},
        "examples": wish.examples,
        "seed": wish.seed,
        "sources": {name: one.key for name, one in wish.sources.items()},
        **common,
    }
    if wish.larger:
        payload["larger"] = wish.larger_key
    if measured is not None and measured.weights:
        payload["given"] = {"weights": measured.weights, "recipe": _plain(measured.recipe)}
    of = measured.title if measured else wish.row
    seconds = measure_seconds(measurement, wish.examples, measured.recipe if measured else None, scale)
    return Job(
        key=wish.key,
        kind="measure",
        title=f"{wish.column} of {of}, seed {wish.seed}",
        payload=payload,
        needs=needs,
        seconds=seconds * LEFT_BY_LARGER_BALL if wish.larger else seconds,
        alone=measurement.kind == "cost",
    )


def _plain(recipe: Recipe) -> dict[str, Any]:
    """Give a recipe as it comes out of a JSON file, lists in place of tuples."""
    table: dict[str, Any] = json.loads(json.dumps(recipe.as_table()))
    return table
