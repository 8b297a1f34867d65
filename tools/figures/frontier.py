"""Robust accuracy against the CPU time of training: `python -m tools.figures.frontier STUDY.json ARM ...`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tools.figures.bars import spread
from tools.figures.command import carried_out, show
from tools.figures.drawing import BLUE, GRAY, GREEN, ORANGE, drawing

from soar.errors import UserError, unknown
from soar.experiments.result import Result
from soar.theory import Rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ACCURACY = "worst case"
_COLORS = (BLUE, ORANGE, GREEN)
_LINE = 1.15
"""percentage points between two labels, so that they do not overlap"""


class Point(NamedTuple):
    """A trained network: its arm, its time and its robust accuracy."""

    arm: str
    minutes: float
    accuracy: float
    low: float
    high: float


def points(result: Result) -> list[Point]:
    """Return the measured rows of a study, which are called "10 min / ARM".

    Args:
        result: with a column "worst case"
    """
    found = []
    for row, cells in result.rows.items():
        accuracy = cells[ACCURACY]
        if accuracy.ours is None:
            continue
        minutes, _, arm = row.partition(" min / ")
        low, high = spread(accuracy)
        ends = (accuracy.ours if one is None else one for one in (low, high))
        found.append(Point(arm, float(minutes), accuracy.ours, *ends))
    return found


def frontier(found: Sequence[Point]) -> list[Point]:
    """Return the points that no cheaper one reaches, from cheap to expensive.

    >>> cheap, worse, better = (Point("", t, a, a, a) for t, a in ((5, 30.0), (9, 29.0), (10, 35.0)))
    >>> [point.accuracy for point in frontier([better, worse, cheap])]
    [30.0, 35.0]
    """
    best: list[Point] = []
    for point in sorted(found, key=lambda one: (one.minutes, -one.accuracy)):
        if not best or point.accuracy > best[-1].accuracy:
            best.append(point)
    return best


def table(found: Sequence[Point]) -> Rows:
    """Return the points as rows, and whether they are on the line of the best."""
    best = frontier(found)
    return [
        {
            "training": point.arm,
            "CPU minutes": point.minutes,
            "robust accuracy": point.accuracy,
            "low": point.low,
            "high": point.high,
            "on the line": "yes" if point in best else "",
        }
        for point in sorted(found, key=lambda one: (round(one.minutes), -one.accuracy))
    ]


def draw(result: Result, path: Path, *, strong: Sequence[str]) -> None:
    """Draw all points with their intervals, arms of several budgets as lines, and the line of the best.

    Args:
        result: the study
        path: the file
        strong: arms drawn in color, at most three; the others are gray
    """
    found = points(result)
    colors = dict(zip(strong, _COLORS, strict=False))
    with drawing(path, width=8.0, height=5.2) as figure:
        axes = figure.add_subplot()
        axes.set_title("Robust accuracy that CPU minutes buy")
        axes.set(xlabel="CPU minutes of training, one thread", ylabel=f"robust accuracy, {result.data}")
        axes.set_xscale("log")
        axes.grid(visible=True, axis="y")
        best = frontier(found)
        axes.plot(
            [one.minutes for one in best],
            [one.accuracy for one in best],
            color=GRAY,
            linewidth=6,
            alpha=0.25,
            solid_capstyle="round",
            label="nothing is both cheaper and more robust",
        )
        for arm in dict.fromkeys(one.arm for one in found):
            _draw_arm(axes, sorted(one for one in found if one.arm == arm), colors.get(arm))
        _label(axes, [one for one in found if one.arm not in colors])
        ticks = sorted({round(one.minutes) for one in found})
        axes.set_xticks(ticks, [str(tick) for tick in ticks])
        axes.minorticks_off()
        axes.set_xlim(min(one.minutes for one in found) / 2.1, max(one.minutes for one in found) * 1.15)
        axes.legend(frameon=False, loc="lower right")


def _draw_arm(axes: Axes, own: Sequence[Point], color: str | None) -> None:
    axes.errorbar(
        [one.minutes for one in own],
        [one.accuracy for one in own],
        [[one.accuracy - one.low for one in own], [one.high - one.accuracy for one in own]],
        color=color or GRAY,
        marker="o",
        markersize=6 if color else 4,
        linewidth=2 if color else 1,
        elinewidth=1,
        alpha=1.0 if color else 0.7,
        label=own[0].arm if color else None,
    )


def _label(axes: Axes, found: Sequence[Point]) -> None:
    """Write the names of gray arms to the left of their first points, from top to bottom."""
    first = {one.arm: one for one in sorted(found, key=lambda one: -one.minutes)}
    below = float("inf")
    for point in sorted(first.values(), key=lambda one: -one.accuracy):
        below = min(point.accuracy, below - _LINE)
        axes.annotate(
            point.arm,
            (point.minutes, point.accuracy),
            xytext=(point.minutes / 1.12, below),
            fontsize=7.5,
            ha="right",
            va="center",
            color=GRAY,
            arrowprops={"arrowstyle": "-", "color": GRAY, "alpha": 0.3, "linewidth": 0.6},
        )


def act(words: Sequence[str]) -> None:
    """Print the points of a study, and draw them beside its file, with some arms in color."""
    if not words:
        raise UserError("expected a file: python -m tools.figures.frontier STUDY.json ARM ...")
    file, *strong = words
    result = Result.load(Path(file))
    found = points(result)
    for arm in strong:
        if arm not in {one.arm for one in found}:
            raise unknown("arm", arm, sorted({one.arm for one in found}), file)
    print(show(table(found)))
    draw(result, Path(file).with_suffix(".svg"), strong=strong)


if __name__ == "__main__":
    sys.exit(carried_out(act, sys.argv[1:]))
