"""The numbers of an experiment as a table: gathered from the cache, written to and read from JSON files."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
from torch import Tensor

from soar.environment import environment
from soar.evaluation.attack_result import from_bits
from soar.evaluation.files import read_json, write_json
from soar.evaluation.shapes import Flags
from soar.experiments.cache import Cache, validation_scores
from soar.experiments.experiment import RECORD, Experiment, Row
from soar.experiments.jobs import Ending
from soar.experiments.requests import NO_WEIGHTS, Request, requests

FORMAT = 2
KIND = "experiment"
SECONDS = "seconds"


class Cell(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One number of a table: the paper's and ours; what is not known is left out of the file.

    Args:
        paper: the paper's number, in the table's unit; None where it prints nothing
        paper_std: its standard deviation over trainings, where it prints one
        values: what we measured, one per seed, in the same unit; empty where nothing was measured
        low: lower end of the 95 % interval of the first seed's value, where there is one
        high: its upper end
        correct: which examples the first seed's network classifies correctly, where that is the number
        each: the number of each example of the first seed, where the number is a mean of such
        missing: why nothing was measured, in a few words
        command: what would measure it, where it cannot be done here
    """

    paper: float | None = None
    paper_std: float | None = None
    values: tuple[float, ...] = ()
    low: float | None = None
    high: float | None = None
    correct: Flags | None = None
    each: tuple[float, ...] | None = None
    missing: str = ""
    command: str = ""

    @property
    def ours(self) -> float | None:
        """The mean over seeds."""
        return statistics.fmean(self.values) if self.values else None

    @property
    def std(self) -> float | None:
        """The standard deviation over seeds (n - 1), from two seeds on."""
        return statistics.stdev(self.values) if len(self.values) > 1 else None

    @property
    def difference(self) -> float | None:
        """Ours minus the paper's."""
        return None if self.ours is None or self.paper is None else self.ours - self.paper

    @property
    def flags(self) -> Tensor | None:
        """Which examples are correctly classified, as a tensor."""
        return None if self.correct is None else from_bits(self.correct)


class Result(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All cells of an experiment's table.

    Args:
        name: the experiment, such as adv_linf
        title: what it shows
        scale: smoke, small or paper; empty for an experiment of one size
        seeds: how many trainings each number is the mean of
        examples: number of test images; 0 where there are none
        unit: of the numbers, such as percent
        units: units of columns that have another one
        row_key: what a row is, such as method
        caution: how the experiment differs from the paper's, always shown
        rows: cells by row and column; rows are called "ResNet / SOAR" where they have groups
        runs: run folders by row, one per seed
        validation: robust accuracy on validation by row, in percent, where that selects a row
        seconds: what the measurements took
        environment: software and hardware
    """

    name: str
    title: str = ""
    scale: str = ""
    seeds: Annotated[int, msgspec.Meta(ge=1)] = 1
    examples: Annotated[int, msgspec.Meta(ge=0)] = 0
    unit: str = "percent"
    units: dict[str, str] = {}
    row_key: str = "training"
    caution: str = ""
    rows: dict[str, dict[str, Cell]]
    runs: dict[str, tuple[str, ...]] = {}
    validation: dict[str, float] = {}
    seconds: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    environment: dict[str, Any] = {}

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return list(next(iter(self.rows.values()), {}))

    @property
    def has_numbers(self) -> bool:
        """Whether anything in it was measured."""
        return any(cell.values for cells in self.rows.values() for cell in cells.values())

    @property
    def has_paper(self) -> bool:
        """Whether the paper has numbers for it."""
        return any(cell.paper is not None for cells in self.rows.values() for cell in cells.values())

    @property
    def file_name(self) -> str:
        """The name of its file, without the ending."""
        return f"{self.name}-{self.scale}" if self.scale else self.name

    def save(self, path: Path) -> None:
        """Write it to a JSON file, whole or not at all.

        Raises:
            UserError: if it cannot be written
        """
        content = {"format": FORMAT, "kind": KIND, **msgspec.to_builtins(self)}
        write_json({**content, "seconds": round(self.seconds, 1)}, path)

    @staticmethod
    def load(path: Path) -> Result:
        """Read it from a JSON file.

        Raises:
            UserError: if the file cannot be read, is damaged or holds something else
        """

        def made(stored: dict[str, Any]) -> Result:
            return msgspec.convert({k: v for k, v in stored.items() if k not in ("format", "kind")}, Result)

        return read_json(path, kind=KIND, version=FORMAT, make=made)


def gather(
    experiment: Experiment,
    cache: Cache,
    *,
    seeds: int = 1,
    weights: Mapping[str, str] = NO_WEIGHTS,
    endings: Mapping[str, Ending] | None = None,
    again: str = "",
) -> Result:
    """Return the table of an experiment with all numbers that are there, those of earlier calls included.

    Args:
        experiment: what was measured
        cache: where results are kept
        seeds: how many trainings each number is the mean of
        weights: files of the user's own by row
        endings: how jobs ended, by key, to explain why a number is missing
        again: the command that would measure what is missing
    """
    wanted: dict[tuple[str, str], list[Request]] = {}
    for request in requests(experiment, seeds=seeds, weights=weights):
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
            elif lost and not (row.missing and row.name not in weights):
                numbers = _why(lost, endings or {}, again)
            else:
                numbers = _never(row, column)
            rows[row.name][column] = Cell(
                paper=row.paper.get(column), paper_std=row.paper_std.get(column), **numbers
            )
        if not row.network or row.missing or row.name in weights:
            continue
        folders = [cache.network(experiment.network(row.network, seed).key) for seed in range(seeds)]
        runs[row.name] = tuple(map(str, folders))
        if experiment.selects:
            found_scores = [validation_scores(folder).get("robust") for folder in folders]
            scores = [one for one in found_scores if one is not None]
            # A mean of fewer trainings than the others have could win by luck.
            validation |= {row.name: 100 * statistics.fmean(scores)} if len(scores) == seeds else {}
    measurements = [one for row in experiment.rows for one in row.columns.values()]
    return Result(
        name=experiment.name,
        title=experiment.title,
        scale=experiment.scale,
        seeds=seeds,
        examples=max((one.examples for one in measurements), default=0),
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

    if what == SECONDS:
        outcome = Outcome.load(run)
        return {"value": outcome.seconds} if outcome else None
    scores = validation_scores(run)
    return {"value": 100 * scores[what]} if what in scores else None


def _units(experiment: Experiment) -> dict[str, str]:
    columns = {name: one for row in experiment.rows for name, one in row.columns.items()}
    times = {name: SECONDS for name, one in columns.items() if one.options.get("what") == SECONDS}
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


def _never(row: Row, column: str) -> dict[str, Any]:
    """Return why nothing can be measured in a cell."""
    if row.missing:
        return {"missing": row.missing, "command": row.command}
    return {"missing": f"{column} is not measured for it"}
