"""Robust accuracy and alignment of gradients while training: `python -m tools.figures.collapse FOLDER`."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tools.figures.command import carried_out, show
from tools.figures.drawing import BLUE, GRAY, GREEN, ORANGE, drawing

from soar.errors import UserError
from soar.recipes.settings import GuardSettings
from soar.theory import Rows
from soar.training.guards import Guards

_COLORS = (ORANGE, BLUE, GREEN, GRAY, "#222222")
_FILE = "collapse.svg"


class Course(NamedTuple):
    """What a training logged: epochs with robust accuracy, epochs with alignment, and when the alarm rang."""

    name: str
    robust: list[tuple[float, float]]
    alignment: list[tuple[float, float]]
    alarm: float | None


def course(file: Path) -> Course:
    """Read the metrics of a training, and find where the guard's rule would have stopped it.

    Args:
        file: metrics.jsonl of a run, under the name of the training
    """
    rows: list[dict[str, Any]] = [json.loads(line) for line in file.read_text().splitlines()]
    guards, alarm = Guards(GuardSettings()), None
    means = []
    for row in rows:
        told = guards.alignment(row.get("alignment", math.nan))
        alarm = row["epoch"] if told and alarm is None else alarm
        if "alignment" in row and guards.mean_alignment is not None:
            means.append((row["epoch"], guards.mean_alignment))
    robust = [(row["epoch"], 100 * row["robust"]) for row in rows if row["kind"] == "validation"]
    return Course(file.stem, robust, means, alarm)


def table(courses: Sequence[Course]) -> Rows:
    """Return the highest and the last robust accuracy of every training, and when its alarm rang."""
    return [
        {
            "training": one.name,
            "best robust": max(value for _, value in one.robust),
            "last robust": one.robust[-1][1],
            "last alignment": one.alignment[-1][1] if one.alignment else None,
            "alarm in epoch": one.alarm,
        }
        for one in courses
    ]


def draw(courses: Sequence[Course], path: Path) -> None:
    """Draw robust accuracy on validation images above, alignment below, and a mark where the alarm rang."""
    with drawing(path, width=7.0, height=5.6) as figure:
        above, below = figure.subplots(2, 1, sharex=True)
        above.set_title("One-step training at a large eps: robust accuracy, and the alarm")
        above.set(ylabel="robust accuracy, %")
        below.set(ylabel="alignment of gradients", xlabel="epoch")
        for one, color in zip(courses, _COLORS, strict=False):
            above.plot(*zip(*one.robust, strict=True), color=color, marker="o", markersize=4, label=one.name)
            if one.alignment:
                below.plot(*zip(*one.alignment, strict=True), color=color, linewidth=1.5)
            if one.alarm is not None:
                for axes in (above, below):
                    axes.axvline(one.alarm, color=color, linestyle=":", linewidth=1.5)
        for axes in (above, below):
            axes.grid(visible=True, axis="y")
        above.legend(frameon=False)


def act(words: Sequence[str]) -> None:
    """Print what happened to every training of a folder, and draw it there."""
    if len(words) != 1:
        raise UserError("expected one folder: python -m tools.figures.collapse FOLDER")
    courses = [course(file) for file in sorted(Path(words[0]).glob("*.jsonl"))]
    if not courses:
        raise UserError(f"{words[0]}: got no .jsonl files, expected the metrics of trainings")
    print(show(table(courses)))
    draw(courses, Path(words[0]) / _FILE)


if __name__ == "__main__":
    sys.exit(carried_out(act, sys.argv[1:]))
