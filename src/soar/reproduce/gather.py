"""From the cache to a table: the paper's number and ours in every cell, or why there is none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from soar.environment import environment
from soar.evaluation.files import from_bits
from soar.paper.tables import PaperRow
from soar.reproduce.measuring.measurement import Experiment, RowPlan
from soar.reproduce.planning import experiments
from soar.reproduce.planning.scales import Scale
from soar.reproduce.running.cache import Cache
from soar.reproduce.running.job import Ending
from soar.reproduce.table_result import Cell, TableResult

VALIDATION = "robust accuracy on validation"
"""where the environment of a sweep's result keeps what its rows are selected by, in percent by row"""


def gather(
    experiment: Experiment,
    scale: Scale,
    cache: Cache,
    *,
    seeds: int,
    weights: Mapping[str, str],
    endings: Mapping[str, Ending],
) -> TableResult:
    """Give a table with all numbers that are there, those of earlier calls included.

    Args:
        experiment: what the table needs
        scale: how large
        cache: where results are kept
        seeds: how many trainings each number is the mean of
        weights: files of the user's own by row
        endings: how jobs ended, by key, to tell why a number is missing
    """
    keys = experiments.keys(experiment, scale, seeds=seeds, weights=weights)
    again = f"soar reproduce {experiment.table.id} --scale {scale.name}"
    again += f" --seeds {seeds}" if seeds > 1 else ""
    rows: dict[str, dict[str, Cell]] = {}
    seconds = 0.0
    for row in experiment.rows:
        printed, rows[row.name] = experiment.table.row(row.name), {}
        for column in experiment.table.columns:
            of_seeds = keys.get(row.name, {}).get(column, ())
            found = {key: cache.load_result(key) for key in of_seeds}
            seconds += sum(one["seconds"] for one in found.values() if one)
            lost = [key for key, one in found.items() if one is None]
            if found and not lost:
                made = _measured(printed, column, [one for one in found.values() if one])
            elif lost and not (row.missing and row.name not in weights):
                made = _without(printed, column, *_why(lost, endings, again))
            else:
                made = _without(printed, column, *_never(row, column))
            rows[row.name][column] = made
    about = environment()
    if experiment.table.row_key in ("beta", "margin"):
        about[VALIDATION] = experiments.chosen(experiment, scale, cache)
    return TableResult(
        table=experiment.table.id,
        scale=scale.name,
        seeds=seeds,
        examples=scale.examples if any(row.network for row in experiment.rows) else 0,
        caution=experiment.caution,
        rows=rows,
        seconds=seconds,
        environment=about,
    )


def _measured(printed: PaperRow, column: str, found: Sequence[dict[str, Any]]) -> Cell:
    first = found[0]
    right, each = first.get("right"), first.get("each")
    return Cell(
        paper=printed.values.get(column),
        paper_std=printed.std.get(column),
        values=tuple(float(one["value"]) for one in found),
        low=first.get("low"),
        high=first.get("high"),
        right=None if right is None else from_bits(right),
        each=None if each is None else tuple(each),
    )


def _without(printed: PaperRow, column: str, missing: str, command: str) -> Cell:
    """Make a cell of the paper's number alone; a mean of fewer seeds than were asked for is none."""
    return Cell(
        paper=printed.values.get(column),
        paper_std=printed.std.get(column),
        missing=missing,
        command=command,
    )


def _why(keys: Sequence[str], endings: Mapping[str, Ending], again: str) -> tuple[str, str]:
    """Say why results are missing and what would make them."""
    for key in keys:
        if key in endings and endings[key].status != "done":
            return f"{endings[key].status}: {endings[key].reason}", ""
    return "not measured yet", again


def _never(row: RowPlan, column: str) -> tuple[str, str]:
    """Say why nothing can be measured in a cell."""
    return (row.missing, row.command) if row.missing else (f"{column} is not measured for it", "")
