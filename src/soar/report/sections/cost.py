"""What training and assessment cost."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from soar.evaluation.assessment import WORST
from soar.report.content import RunContent
from soar.report.markup import Html, tag
from soar.report.sections.attacks import seconds
from soar.report.sections.layout import cell, heading, section, table

# What trainings log their speed under.
_SPEED = "images_per_second"


def cost(runs: Sequence[RunContent]) -> Html:
    """Show what every run cost."""
    columns = (
        "run", "training seconds", "training images/s", "images attacked", "forward an image",
        "backward an image", "attack seconds", "attacked images/s", "passes/s",
    )  # fmt: skip
    made = table(
        tag("tr", *(heading(column) for column in columns)),
        [_row(run) for run in runs],
        caption="Cost of training and of all attacks together",
        kind="numbers wraps",
    )
    return section(
        "cost",
        "What it cost",
        made,
        lead="Passes are predictions (forward) and gradients (backward), counted for every image."
        " Training speed is the median.",
    )


def _row(run: RunContent) -> Html:
    found = run.assessment
    speeds = [y for curve in run.training if curve.label == _SPEED for y in curve.y]
    forward, backward = found.passes(WORST)
    time = seconds(found, WORST) or None
    passes = (forward + backward) * len(found)
    return tag(
        "tr",
        tag("th", run.name, scope="row", data_sort=run.name),
        _number(run.trained_seconds),
        _number(median(speeds) if speeds else None),
        cell(str(len(found)), sort=len(found)),
        _number(forward),
        _number(backward),
        _number(time),
        _number(time and len(found) / time),
        _number(time and passes / time),
    )


def _number(value: float | None) -> Html:
    if value is None:
        return cell("-")
    return cell(f"{value:,.0f}" if value >= 1000 else f"{value:.1f}", sort=value)
