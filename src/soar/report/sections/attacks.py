"""Accuracy of every run under every attack, and what training and attacks cost."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from statistics import median

from soar.evaluation import Assessment
from soar.evaluation.assessment import CLEAN, WORST
from soar.report.content import RunContent
from soar.report.csv_link import Value, csv_link
from soar.report.markup import Html, bar, cell, distrusted, heading, join, mark, row, section, table, tag
from soar.text import interval, percent

# The name under which training runs log their speed.
_SPEED = "images_per_second"


def draw(runs: Sequence[RunContent]) -> Html:
    """Draw the table of attacks, with runs as columns."""
    columns = ("accuracy", "passes", "seconds")
    below = [
        heading(
            column,
            kind="starts" if column == columns[0] else "",
            aria_label=f"{run.name}, {column}",
            data_run=place,
        )
        for place, run in enumerate(runs)
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
                tag("tr", heading("attack", rowspan=2), *map(_run_heading, count(), runs)),
                tag("tr", *below),
            ),
            [_attack_row(label, runs, label in cumulative) for label in (CLEAN, *attack_labels(runs))],
            caption="Accuracy under each attack, with 95% intervals",
            foot=_attack_row(WORST, runs, False),
            kind="numbers attacks" + (" dense" if len(runs) > 2 else ""),
            below=_csv(runs),
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
        [_cost_row(place, run, columns) for place, run in enumerate(runs)],
        caption="Cost of training and of all attacks together",
        kind="numbers wraps stacks",
        below=csv_link("cost", [columns, *([run.name, *_costs(run)] for run in runs)]),
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


def _run_heading(place: int, run: RunContent) -> Html:
    kind, text = run.verdict.kind, run.verdict.text
    verdict = mark(kind, text) if kind not in ("sound", "unknown") else None
    name = tag("span", run.name, " ", verdict, class_="stays")
    return tag("th", name, scope="colgroup", colspan=3, class_="starts", data_run=place)


def _attack_row(label: str, runs: Sequence[RunContent], is_cumulative: bool) -> Html:
    cells = [one for place, run in enumerate(runs) for one in _attack_cells(label, place, run)]
    return row(label, *cells, label=f"{label} *" if is_cumulative else None)


def _attack_cells(label: str, place: int, run: RunContent) -> list[Html]:
    found = run.assessment
    if label not in found.names:
        return [
            cell("not run", kind="starts none", run=place),
            cell("-", run=place),
            cell("-", run=place),
        ]
    share, time = found.accuracy(label), _seconds(found, label)
    forward, backward = found.passes(label)
    is_masked = run.verdict.is_masked and label != CLEAN
    number = tag("del" if is_masked and label == WORST else "b", percent(share))
    range_ = tag("span", interval(*found.interval(label)), class_="small")
    shown = join(number, " ", range_, bar(share, "masked" if is_masked else "toned"))
    return [
        cell(shown, sort=share, kind="starts", run=place),
        cell(f"{forward:.1f} + {backward:.1f}", sort=forward + backward, run=place),
        cell("-" if time is None else f"{time:.1f}", sort=time, run=place),
    ]


def _csv(runs: Sequence[RunContent]) -> Html:
    """Return the table with a row for each run and attack, so that no number is without its verdict."""
    rows: list[Sequence[Value]] = [
        ("run", "verdict", "attack", "images", "accuracy", "low", "high", "forward", "backward", "seconds")
    ]
    for run in runs:
        found = run.assessment
        for label in found.names:
            numbers = found.accuracy(label), *found.interval(label), *found.passes(label)
            rows.append((run.name, run.verdict.text, label, len(found), *numbers, _seconds(found, label)))
    return csv_link("by-attack", rows)


def _seconds(found: Assessment, label: str) -> float | None:
    """Return the duration of an attack, or of all for the worst case; clean images are not timed."""
    taken = {result.label: result.seconds for result in found.attacks}
    return sum(taken.values()) if label == WORST else taken.get(label)


def _costs(run: RunContent) -> list[float | None]:
    """Return the numbers of a row of costs, in the order of its columns."""
    found = run.assessment
    speeds = [y for curve in run.training if curve.label == _SPEED for y in curve.y]
    forward, backward = found.passes(WORST)
    time = _seconds(found, WORST) or None
    return [
        run.trained_seconds,
        median(speeds) if speeds else None,
        len(found),
        forward,
        backward,
        time,
        time and len(found) / time,
        time and (forward + backward) * len(found) / time,
    ]


def _cost_row(place: int, run: RunContent, columns: Sequence[str]) -> Html:
    cells = [_number(value, column) for value, column in zip(_costs(run), columns[1:], strict=True)]
    return row(run.name, *cells, run=place)


def _number(value: float | None, column: str) -> Html:
    if value is None:
        return cell("-", under=column)
    is_whole = isinstance(value, int)
    text = str(value) if is_whole else f"{value:,.0f}" if value >= 1000 else f"{value:.1f}"
    return cell(text, sort=value, under=column)
