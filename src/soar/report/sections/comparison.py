"""How runs differ on the same examples, and which of them are best."""

from __future__ import annotations

from collections.abc import Sequence

from soar import text
from soar.errors import UserError
from soar.evaluation.assessment import CLEAN, WORST, Assessment
from soar.evaluation.compare import Comparison, Difference, compare
from soar.evaluation.interval import is_tied, leading
from soar.report.content import RunContent
from soar.report.csv_link import Value, csv_link
from soar.report.markup import Html, cell, heading, join, mark, missing, row, table, tag

TIED = "tied: the 95% interval of the paired difference includes 0"
"""what the word means, for captions"""


def difference(one: Assessment, other: Assessment, name: str) -> Difference | None:
    """Compare two assessments on the examples and attacks in common; None where there are none.

    Args:
        one: the first
        other: what is subtracted from it
        name: an attack's label, "clean" or "worst case"
    """
    found = _compare(one, other)
    return None if isinstance(found, str) else next((row for row in found.rows if row.name == name), None)


def points(found: Difference | None) -> str:
    """Format a difference in points with its paired 95% interval."""
    if found is None:
        return "not comparable"
    return f"{text.points(found.difference)} ({text.points(found.low)} to {text.points(found.high)})"


def caveats(runs: Sequence[RunContent]) -> list[str]:
    """Return what makes the comparison of the runs with the first unfair, one sentence each."""
    sentences = []
    for run in runs[1:]:
        found = _compare(runs[0].assessment, run.assessment)
        pair = f"{runs[0].name} and {run.name}"
        if isinstance(found, str):
            sentences.append(f"{pair} are not compared, and no run is called best: {found}.")
            continue
        if found.left_out:
            sentences.append(f"{pair} were assessed on different examples; {found.examples} are in common.")
        if found.attacks_left_out:
            others = ", ".join(found.attacks_left_out)
            sentences.append(
                f"{pair} met different attacks: no run is called best, their difference leaves out {others}."
            )
    return sentences


def leaders(runs: Sequence[RunContent]) -> list[int]:
    """Return the position of the most robust run and of those tied with it, the highest first.

    A run whose diagnosis is not sound is never among them, one without a diagnosis may be. There is no best
    of a single run, or of runs that were assessed on different data, threats or attacks.
    """
    trusted = [place for place, run in enumerate(runs) if run.verdict.kind in ("sound", "unknown")]
    found = [_compare(runs[0].assessment, run.assessment) for run in runs[1:]]
    if len(runs) < 2 or any(isinstance(one, str) or one.attacks_left_out for one in found):
        return []

    def apart(one: int, other: int) -> tuple[float, float]:
        between = difference(runs[trusted[one]].assessment, runs[trusted[other]].assessment, WORST)
        # Without examples in common nothing tells them apart.
        return (-1.0, 1.0) if between is None else (between.low, between.high)

    reached = [runs[place].assessment.worst_case for place in trusted]
    return [trusted[place] for place in leading(reached, apart)]


def standing(place: int, leading: Sequence[int]) -> str:
    """Return what a run is called among all: "best", "tied for best" or nothing.

    >>> [standing(place, [2, 0]) for place in range(3)], standing(1, [1])
    (['tied for best', '', 'tied for best'], 'best')
    """
    return "" if place not in leading else "best" if len(leading) == 1 else "tied for best"


def _compare(one: Assessment, other: Assessment) -> Comparison | str:
    """Compare two assessments, or return why they cannot be compared."""
    try:
        return compare(one, other)
    except UserError as error:
        return str(error).removeprefix("assessments cannot be compared, ")


def draw(runs: Sequence[RunContent], leading: Sequence[int]) -> Html:
    """Draw how much runs differ from the first and from the highest, on the same examples.

    Args:
        runs: what to compare
        leading: positions of the leaders, the highest first
    """
    columns = [(runs[0], CLEAN), (runs[0], WORST)]
    if leading and leading[0] != 0:
        columns.append((runs[leading[0]], WORST))
    kinds = {CLEAN: "clean", WORST: "robust"}
    titles = [f"{kinds[label]}, against {other.name}" for other, label in columns]
    if len(columns) > 2:
        titles[-1] += " (best)" if len(leading) == 1 else " (highest)"
    rows = []
    for place, run in enumerate(runs):
        masked = join(run.name, " ", mark("masked", run.verdict.text)) if run.verdict.is_masked else None
        cells = [
            _cell(run, other, label, title) for (other, label), title in zip(columns, titles, strict=True)
        ]
        rows.append(row(run.name, *cells, label=masked, run=place))
    head = tag("tr", heading("run"), *map(heading, titles))
    caption = f"Differences in points, with paired 95% intervals on the same examples; {TIED}"
    made = table(head, rows, caption=caption, kind="numbers wraps stacks", below=_csv(runs, columns))
    return join(tag("h3", "Differences"), *(missing(caveat) for caveat in caveats(runs)), made)


def _note(run: RunContent, other: RunContent, label: str, found: Difference) -> str | None:
    if label == WORST and (run.verdict.is_masked or other.verdict.is_masked):
        return "not to be trusted"
    return "tied" if is_tied(found.low, found.high) else None


def _cell(run: RunContent, other: RunContent, label: str, title: str) -> Html:
    if run is other:
        return cell("-", kind="self", under=title)
    found = difference(run.assessment, other.assessment, label)
    if found is None:
        return cell("not comparable", kind="none", under=title)
    note = _note(run, other, label, found)
    small = tag("span", note, class_="small") if note else None
    shown = points(found).replace("-", "\N{MINUS SIGN}")
    return cell(join(shown, " ", small), sort=found.difference, under=title)


def _csv(runs: Sequence[RunContent], columns: Sequence[tuple[RunContent, str]]) -> Html:
    rows: list[Sequence[Value]] = [("run", "against", "accuracy", "points", "low", "high", "note")]
    for run in runs:
        for other, label in columns:
            found = None if run is other else difference(run.assessment, other.assessment, label)
            if found is not None:
                numbers = (100 * one for one in (found.difference, found.low, found.high))
                rows.append((run.name, other.name, label, *numbers, _note(run, other, label, found)))
    return csv_link("differences", rows)
