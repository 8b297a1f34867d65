"""How a training went: curves from `metrics.jsonl`, and the guards that fired."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from soar.recipes import Recipe
from soar.report.drawing.data import Curve
from soar.training.guards import Guards

MOST_POINTS = 150
"""A longer curve is averaged over neighboring steps: a chart is not wider, and steps are noisy."""
NOT_FIGURES = {"step", "epoch", "kind", "seconds"}
VALIDATION = "validation"

Row = dict[str, Any]


class History(NamedTuple):
    """The rows of a training, each step once."""

    train: list[Row]
    validation: list[Row]

    @property
    def seconds(self) -> float | None:
        """How long it took, over all sessions, as far as is known."""
        times = [row["seconds"] for row in (*self.train, *self.validation) if _is_number(row.get("seconds"))]
        return max(times, default=None)


def read(path: Path) -> History:
    """Read `metrics.jsonl`; damaged lines are passed over, and what was trained again counts once.

    Args:
        path: the file, which need not exist
    """
    try:
        lines = path.read_text(errors="replace").splitlines()
    except OSError:
        lines = []
    found = History([], [])
    for row in filter(None, map(_row, lines)):
        # A training that was resumed from an earlier step repeats what came after it.
        if row["kind"] == VALIDATION:
            _cut(found.validation, row["step"])
            found.validation.append(row)
        else:
            _cut(found.train, row["step"])
            _cut(found.validation, row["step"])
            found.train.append(row)
    return found


def curves(history: History) -> tuple[Curve, ...]:
    """Draw everything that was logged against the epoch; figures of training are averaged over steps.

    Args:
        history: the rows
    """
    found = []
    for rows, most in ((history.train, MOST_POINTS), (history.validation, len(history.validation))):
        for label in _figures(rows):
            points = [(row["epoch"], row[label]) for row in rows if _is_number(row.get(label))]
            size = max(1, math.ceil(len(points) / max(1, most)))
            parts = [points[start : start + size] for start in range(0, len(points), size)]
            found.append(
                Curve(
                    label=label,
                    x=tuple(round(fmean(x for x, _ in part), 5) for part in parts),
                    y=tuple(float(f"{fmean(y for _, y in part):.6g}") for part in parts),
                )
            )
    return tuple(found)


def fired(history: History, recipe: Recipe, outcome: Path) -> tuple[str, ...]:
    """Return which guards fired, a line each.

    What validations said is put before the guard again; what else ended the training is in its outcome.

    Args:
        history: the rows
        recipe: the limits, and what the checkpoint is selected by
        outcome: the file that says how the training ended, which need not exist
    """
    guards, found = Guards(recipe.guards), []
    for row in history.validation:
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


def _figures(rows: Iterable[Row]) -> list[str]:
    """Name what was logged, in the order in which it first appears."""
    return list(dict.fromkeys(name for row in rows for name in row if name not in NOT_FIGURES))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
