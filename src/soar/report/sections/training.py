"""The training: curves of what was logged to `metrics.jsonl`, and the guards that fired."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple

from soar.recipes import Recipe
from soar.report.drawing.charts import line_chart
from soar.report.drawing.lines import Curve
from soar.report.markup import Html, chart, join, missing, section, tag
from soar.training.guards import Guards

if TYPE_CHECKING:
    from soar.report.content import RunContent

MOST_POINTS = 150
"""A longer training curve is averaged over neighboring steps: a chart is not wider, and steps are noisy."""
VALIDATION = "validation"
_NOT_METRICS = {"step", "epoch", "kind", "seconds"}
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
# With a single run these share a chart; with several, every chart shows one quantity of all runs.
_TOGETHER = {"Loss and penalty": ("loss", "penalty"), "Validation accuracy": ("clean", "robust")}

Row = dict[str, Any]


class Metrics(NamedTuple):
    """The rows of `metrics.jsonl`, each step once."""

    train: list[Row]
    validation: list[Row]

    @property
    def seconds(self) -> float | None:
        """The duration over all sessions, as far as it is known."""
        times = [row["seconds"] for row in (*self.train, *self.validation) if _is_number(row.get("seconds"))]
        return max(times, default=None)


def read_metrics(path: Path) -> Metrics:
    """Read `metrics.jsonl`; damaged lines are skipped, and steps that were repeated count once.

    Args:
        path: the file, which need not exist
    """
    try:
        lines = path.read_text(errors="replace").splitlines()
    except OSError:
        lines = []
    found = Metrics([], [])
    for row in filter(None, map(_row, lines)):
        # A training that was resumed from an earlier step repeats what came after it.
        _cut(found.validation, row["step"])
        if row["kind"] == VALIDATION:
            found.validation.append(row)
        else:
            _cut(found.train, row["step"])
            found.train.append(row)
    return found


def training_curves(metrics: Metrics) -> tuple[Curve, ...]:
    """Return a curve against the epoch for every metric; those of training are averaged over steps."""
    found = []
    for rows, most in ((metrics.train, MOST_POINTS), (metrics.validation, len(metrics.validation))):
        for label in dict.fromkeys(name for row in rows for name in row if name not in _NOT_METRICS):
            points = [(row["epoch"], row[label]) for row in rows if _is_number(row.get(label))]
            size = max(1, math.ceil(len(points) / max(1, most)))
            parts = [points[start : start + size] for start in range(0, len(points), size)]
            x = tuple(round(fmean(x for x, _ in part), 5) for part in parts)
            y = tuple(float(f"{fmean(y for _, y in part):.6g}") for part in parts)
            found.append(Curve(label=label, x=x, y=y))
    return tuple(found)


def fired_guards(metrics: Metrics, recipe: Recipe, outcome: Path) -> tuple[str, ...]:
    """Return the guards that fired, one line each.

    The validations are checked by the guard again; what else ended the training is in its outcome.

    Args:
        metrics: the rows
        recipe: the limits, and what the checkpoint is selected by
        outcome: the file with how the training ended, which need not exist
    """
    guards, found = Guards(recipe.guards), []
    for row in metrics.validation:
        if recipe.validation.select == "robust" and _is_number(row.get("robust")):
            guards.after_validation(row["robust"])
        if guards.overfitting:
            found.append(f"epoch {row['epoch']:.4g}: {guards.overfitting}")
    try:
        ended = json.loads(outcome.read_text())
        reason = str(ended["reason"]) if ended["status"] == "stopped" else ""
    except (OSError, ValueError, KeyError, TypeError):
        reason = ""
    if reason and not any(line.endswith(reason) for line in found):
        found.append(f"training stopped: {reason}")
    return tuple(found)


def _row(line: str) -> Row | None:
    try:
        row = json.loads(line)
        return row if _is_number(row["step"]) and _is_number(row["epoch"]) and "kind" in row else None
    except (ValueError, KeyError, TypeError):
        return None


def _cut(rows: list[Row], step: int) -> None:
    while rows and rows[-1]["step"] >= step:
        rows.pop()


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def draw(runs: Sequence[RunContent]) -> Html:
    """Draw the curves of the training, and list the guards that fired."""
    known = [run for run in runs if run.training]
    names = dict.fromkeys(curve.label for run in known for curve in run.training)
    main = (
        _of_one(known[0]) if len(known) == 1 else [_of_all(known, name) for name in _TITLES if name in names]
    )
    more = [_of_all(known, name) for name in names if name not in _TITLES]
    without = ", ".join(run.name for run in runs if not run.training)
    return section(
        "training",
        "Training",
        tag("div", *main, class_="charts") if main else None,
        _folded(more) if more else None,
        _guards(runs) if known else None,
        missing(f"No curve of {without}: its metrics.jsonl is missing or empty.") if without else None,
    )


def _of_one(run: RunContent) -> list[Html]:
    left = {curve.label: curve for curve in run.training if curve.label in _TITLES}
    charts = []
    for title, names in _TOGETHER.items():
        curves = [left.pop(name) for name in names if name in left]
        if curves:
            charts.append(_chart(title, curves, curves[0].label))
    return charts + [_chart(_TITLES[name], [curve], name) for name, curve in left.items()]


def _of_all(runs: Sequence[RunContent], name: str) -> Html:
    """Draw one quantity of all runs; a run without it keeps its color."""
    curves = []
    for run in runs:
        found = next((curve for curve in run.training if curve.label == name), Curve(label=name, x=(), y=()))
        curves.append(replace(found, label=run.legend))
    return _chart(_TITLES.get(name, name.replace("_", " ")), curves, name)


def _chart(title: str, curves: Sequence[Curve], name: str) -> Html:
    label = "accuracy" if name in _ACCURACIES else name.replace("_", " ")
    return chart(line_chart(curves, title=title, x_label="epoch", y_label=label, percent=name in _SHARES))


def _folded(charts: Sequence[Html]) -> Html:
    summary = tag("summary", f"{len(charts)} more curves")
    return tag("details", summary, tag("div", *charts, class_="charts"), class_="more")


def _guards(runs: Sequence[RunContent]) -> Html:
    fired = [tag("li", tag("b", f"{run.name}: "), line) for run in runs for line in run.guards]
    if not fired:
        return tag("p", "No guard fired.", class_="small")
    return join(tag("h3", "Guards that fired"), tag("ul", *fired, class_="guards"))
