"""The training: curves of what was logged to `metrics.jsonl`, and the guards that fired."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from soar.errors import UserError
from soar.recipes import Recipe
from soar.report.drawing.charts import line_chart
from soar.report.drawing.lines import ChartLine
from soar.report.markup import Html, chart, join, missing, section, tag
from soar.training.guards import Guards
from soar.training.result import Outcome

if TYPE_CHECKING:
    from soar.report.content import RunContent

MOST_POINTS = 150
"""A longer training curve is averaged over neighboring steps: a chart is not wider, and steps are noisy."""
VALIDATION = "validation"
_NOT_METRICS = {"step", "epoch", "kind", "seconds", "cpu_seconds"}
# What everyone wants to see, with its title; what else was logged is folded up under its own name.
_TITLES = {
    "loss": "Training loss",
    "penalty": "Penalty (part of the loss)",
    "clean": "Clean validation accuracy",
    "robust": "Robust validation accuracy",
    "lr": "Learning rate",
}
_ACCURACIES = frozenset({"clean", "robust", "accuracy"})
_SHARES = _ACCURACIES | {"clamped", "confidence"}

Row = dict[str, Any]


def read_metrics(path: Path) -> list[Row]:
    """Return the rows of `metrics.jsonl`; lines that are damaged are skipped.

    Args:
        path: the file, which need not exist
    """
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
    return [row for row in map(_row, lines) if row]


def _row(line: str) -> Row:
    """Return the numbers of a row with its kind; nothing if it is damaged."""
    try:
        row = json.loads(line)
        kind = {"kind": row["kind"]}
        numbers = {name: value for name, value in row.items() if type(value) in (int, float)}
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}
    return kind | numbers if {"step", "epoch"} <= numbers.keys() else {}


def training_curves(metrics: Sequence[Row]) -> tuple[ChartLine, ...]:
    """Return a curve against the epoch for every metric; those of training are averaged over steps."""
    validation = [row for row in metrics if row["kind"] == VALIDATION]
    train = [row for row in metrics if row["kind"] != VALIDATION]
    found = []
    for rows, most in ((train, MOST_POINTS), (validation, len(validation))):
        for label in dict.fromkeys(name for row in rows for name in row if name not in _NOT_METRICS):
            points = [(row["epoch"], row[label]) for row in rows if label in row]
            size = math.ceil(len(points) / most)
            parts = [points[start : start + size] for start in range(0, len(points), size)]
            x = tuple(round(fmean(x for x, _ in part), 5) for part in parts)
            y = tuple(float(f"{fmean(y for _, y in part):.6g}") for part in parts)
            found.append(ChartLine(label=label, x=x, y=y))
    return tuple(found)


def fired_guards(metrics: Sequence[Row], recipe: Recipe, run: Path) -> tuple[str, ...]:
    """Return the guards that fired, one line each.

    What was logged is checked by the guards again; what else ended the training is in its outcome.

    Args:
        metrics: the rows
        recipe: the limits, and what the checkpoint is selected by
        run: the run folder
    """
    guards, found, best = Guards(recipe.guards), [], 0.0
    for row in metrics:
        if turned := guards.alignment(row.get("alignment", math.nan)):
            found.append(f"epoch {row['epoch']:.4g}: {turned}")
        if recipe.validation.select == "robust" and row["kind"] == VALIDATION and "robust" in row:
            best = max(best, row["robust"])
            overfitting = guards.overfitting(best, row["robust"])
            found += [f"epoch {row['epoch']:.4g}: {overfitting}"] if overfitting else []
    try:
        outcome = Outcome.load(run)
    except UserError:
        outcome = None
    if outcome and outcome.status == "stopped" and not any(line.endswith(outcome.reason) for line in found):
        found.append(f"training stopped: {outcome.reason}")
    return tuple(found)


def draw(runs: Sequence[RunContent]) -> Html:
    """Draw the curves of the training, and list the guards that fired."""
    known = [run for run in runs if run.training]
    names = dict.fromkeys(curve.label for run in known for curve in run.training)
    main = [_chart(runs, name) for name in _TITLES if name in names]
    more = [_chart(runs, name) for name in names if name not in _TITLES]
    without = ", ".join(run.name for run in runs if not run.training)
    return section(
        "training",
        "Training",
        tag("div", *main, class_="charts") if main else None,
        _folded(more) if more else None,
        _guards(runs) if known else None,
        missing(f"No curve of {without}: its metrics.jsonl is missing or empty.") if without else None,
    )


def _chart(runs: Sequence[RunContent], name: str) -> Html:
    """Draw one quantity of all runs; a run without it keeps its color."""
    curves = []
    for run in runs:
        found = next(
            (curve for curve in run.training if curve.label == name), ChartLine(label=name, x=(), y=())
        )
        curves.append(replace(found, label=run.legend))
    words = name.replace("_", " ")
    label = "accuracy" if name in _ACCURACIES else words
    title = _TITLES.get(name, words)
    return chart(
        line_chart(
            curves, title=title, x_label="epoch", y_label=label, percent=name in _SHARES, by_run=len(runs) > 1
        )
    )


def _folded(charts: Sequence[Html]) -> Html:
    summary = tag("summary", f"{len(charts)} more curves")
    return tag("details", summary, tag("div", *charts, class_="charts"), class_="more")


def _guards(runs: Sequence[RunContent]) -> Html:
    fired = [
        tag("li", tag("b", f"{run.name}: "), line, data_run=place)
        for place, run in enumerate(runs)
        for line in run.guards
    ]
    if not fired:
        return tag("p", "No guard fired.", class_="small")
    return join(tag("h3", "Guards that fired"), tag("ul", *fired, class_="guards"))
