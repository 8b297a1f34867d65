"""Accuracy of every run under every attack, and what training and attacks cost."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from soar.evaluation import Assessment
from soar.evaluation.assessment import CLEAN, WORST
from soar.report.content import RunContent
from soar.report.markup import Html, bar, cell, distrusted, heading, join, mark, row, section, table, tag
from soar.text import interval, percent

# The name under which training runs log their speed.
_SPEED = "images_per_second"


def draw(runs: Sequence[RunContent]) -> Html:
    """Draw the table of attacks, with runs as columns."""
    columns = ("accuracy", "passes", "seconds")
    below = [
        heading(column, kind="starts" if column == columns[0] else "", aria_label=f"{run.name}, {column}")
        for run in runs
        for column in columns
    ]
    cumulative = {one.label for run in runs for one in run.assessment.attacks if one.survivors_only}
    note = "* on what earlier attacks have left; the accuracy is what is left then"
    return section(
        "attacks",
        "By attack",
        distrusted(runs),
        table(
            join(
                tag("tr", heading("attack", rowspan=2), *(_run_heading(run) for run in runs)),
                tag("tr", *below),
            ),
            [_attack_row(label, runs, label in cumulative) for label in (CLEAN, *attack_labels(runs))],
            caption="Accuracy under each attack, with 95% intervals",
            foot=_attack_row(WORST, runs, False),
            kind="numbers attacks" + (" dense" if len(runs) > 2 else ""),
        ),
        tag("p", note, class_="small") if cumulative else None,
        lead="The lower, the stronger the attack. Only the worst case of all attacks is the robust accuracy."
        " Passes: forward and backward passes per image. Click a heading to sort.",
    )


def draw_cost(runs: Sequence[RunContent]) -> Html:
    """Draw what the training and the attacks of every run cost."""
    columns = (
        "run", "training seconds", "training images/s", "images attacked", "forward per image",
        "backward per image", "attack seconds", "attacked images/s", "passes/s",
    )  # fmt: skip
    made = table(
        tag("tr", *(heading(column) for column in columns)),
        [_cost_row(run) for run in runs],
        caption="Cost of training and of all attacks together",
        kind="numbers wraps",
    )
    return section(
        "cost",
        "Cost",
        made,
        lead="Forward and backward passes are counted for every image. Training speed is the median.",
    )


def attack_labels(runs: Sequence[RunContent]) -> list[str]:
    """Return the attacks of all runs, each once, in the order in which they were run."""
    return list(dict.fromkeys(result.label for run in runs for result in run.assessment.attacks))


def _run_heading(run: RunContent) -> Html:
    kind, text = run.verdict.kind, run.verdict.text
    verdict = mark(kind, text) if kind not in ("sound", "unknown") else None
    return tag("th", run.name, " ", verdict, scope="colgroup", colspan=3, class_="starts")


def _attack_row(label: str, runs: Sequence[RunContent], is_cumulative: bool) -> Html:
    cells = [one for run in runs for one in _attack_cells(label, run)]
    return row(label, *cells, label=f"{label} *" if is_cumulative else None)


def _attack_cells(label: str, run: RunContent) -> list[Html]:
    found = run.assessment
    if label not in found.names:
        return [cell("not run", kind="starts none"), cell("-"), cell("-")]
    share, time = found.accuracy(label), _seconds(found, label)
    forward, backward = found.passes(label)
    is_masked = run.verdict.is_masked and label != CLEAN
    number = tag("del" if is_masked and label == WORST else "b", percent(share))
    range_ = tag("span", interval(*found.interval(label)), class_="small")
    return [
        cell(join(number, " ", range_, bar(share, "masked" if is_masked else "")), sort=share, kind="starts"),
        cell(f"{forward:.1f} + {backward:.1f}", sort=forward + backward),
        cell("-" if time is None else f"{time:.1f}", sort=time),
    ]


def _seconds(found: Assessment, label: str) -> float | None:
    """Return the duration of an attack, or of all for the worst case; clean images are not timed."""
    taken = {result.label: result.seconds for result in found.attacks}
    return sum(taken.values()) if label == WORST else taken.get(label)


def _cost_row(run: RunContent) -> Html:
    found = run.assessment
    speeds = [y for curve in run.training if curve.label == _SPEED for y in curve.y]
    forward, backward = found.passes(WORST)
    time = _seconds(found, WORST) or None
    return row(
        run.name,
        _number(run.trained_seconds),
        _number(median(speeds) if speeds else None),
        cell(str(len(found)), sort=len(found)),
        _number(forward),
        _number(backward),
        _number(time),
        _number(time and len(found) / time),
        _number(time and (forward + backward) * len(found) / time),
    )


def _number(value: float | None) -> Html:
    if value is None:
        return cell("-")
    return cell(f"{value:,.0f}" if value >= 1000 else f"{value:.1f}", sort=value)
