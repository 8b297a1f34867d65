"""The first section: clean and robust accuracy of every run, whether to trust it, and how runs differ."""

from __future__ import annotations

from collections.abc import Sequence

from soar import text
from soar.errors import UserError
from soar.evaluation.assessment import CLEAN, WORST, Assessment
from soar.evaluation.bracket import Bracket
from soar.evaluation.compare import Comparison, Difference, compare
from soar.report.content import RunContent
from soar.report.markup import SIGNS, Html, Kind, cell, heading, join, mark, missing, row, section, table, tag

_WARNINGS: dict[Kind, str] = {
    "masked": "Not to be trusted",
    "suspicious": "Not to be quoted yet",
    "inconclusive": "Not confirmed",
}


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


def best(runs: Sequence[RunContent]) -> list[int]:
    """Return the positions of the most robust runs, more than one where they are equal.

    A run whose diagnosis is not sound is never among them, one without a diagnosis may be. There is no best
    of a single run, or of runs that were assessed on different data, threats or attacks.
    """
    trusted = [place for place, run in enumerate(runs) if run.verdict.kind in ("sound", "unknown")]
    found = [_compare(runs[0].assessment, run.assessment) for run in runs[1:]]
    if len(runs) < 2 or not trusted or any(isinstance(one, str) or one.attacks_left_out for one in found):
        return []
    reached = {place: runs[place].assessment.accuracy(WORST) for place in trusted}
    return [place for place in trusted if reached[place] == max(reached.values())]


def _compare(one: Assessment, other: Assessment) -> Comparison | str:
    """Compare two assessments, or return why they cannot be compared."""
    try:
        return compare(one, other)
    except UserError as error:
        return str(error).removeprefix("assessments cannot be compared, ")


def draw(runs: Sequence[RunContent]) -> Html:
    """Draw the main numbers of every run, and how they differ."""
    leading = best(runs)
    cards = [_card(run, is_best=place in leading) for place, run in enumerate(runs)]
    return section(
        "headline",
        "Robust accuracy",
        *(_alarm(run) for run in runs if run.verdict.is_masked),
        tag("div", *cards, class_="cards headline"),
        _comparison(runs, leading) if len(runs) > 1 else None,
    )


def _alarm(run: RunContent) -> Html:
    """Warn of a masked run before anything else is read."""
    reached = text.percent(run.assessment.worst_case)
    sign = tag("span", SIGNS["masked"], class_="sign", aria_hidden="true")
    return tag(
        "div",
        tag("strong", sign, f" {run.name} is masked: its {reached} is not to be trusted."),
        " Attacks that follow the gradient are misled here, so this is an upper bound and not robustness. ",
        run.verdict.reason,
        class_="alarm",
        role="alert",
    )


def _card(run: RunContent, *, is_best: bool) -> Html:
    found, verdict = run.assessment, run.verdict
    star = tag("span", "★ best", class_="best", title="highest worst-case accuracy of the runs to trust")
    number = tag("del" if verdict.is_masked else "span", text.percent(found.worst_case), class_="big")
    warning = _WARNINGS.get(verdict.kind)
    worst, clean = (text.interval(*found.interval(label)) for label in (WORST, CLEAN))
    return tag(
        "article",
        tag("header", tag("h3", run.name), star if is_best else None),
        tag("p", number, class_="number"),
        tag("p", tag("strong", f"{SIGNS[verdict.kind]} {warning}"), class_="distrust") if warning else None,
        tag("p", tag("b", "robust accuracy"), ", worst case of all attacks", class_="what"),
        tag("p", f"95% interval {worst}%", class_="interval"),
        _ruler(found) if run.bracket is None else _both_sides(run.bracket),
        tag("p", tag("b", text.percent(found.accuracy(CLEAN))), f" clean, {clean}%"),
        tag("p", mark(verdict.kind, verdict.text), class_="judgment"),
        tag("p", verdict.reason, class_="reason"),
        *(tag("p", f"! {note}", class_="note") for note in found.notes),
        tag("p", f"{len(found)} images of {found.data}, {found.threat}", class_="small"),
        class_=f"card {verdict.kind}" + (" leading" if is_best else ""),
    )


def _ruler(found: Assessment) -> Html:
    """Draw both accuracies on a line from 0 to 100%, the worst case with its interval."""
    low, high = found.interval(WORST)
    return tag(
        "div",
        tag("span", class_="range", style=f"left:{100 * low:.1f}%;width:{100 * (high - low):.1f}%"),
        tag("span", class_="dot", style=f"left:{100 * found.worst_case:.1f}%"),
        tag("span", class_="tick", style=f"left:{100 * found.accuracy(CLEAN):.1f}%"),
        class_="ruler",
        aria_hidden="true",
    )


def _both_sides(found: Bracket) -> Html:
    """Draw what is certified, what attacks have left and the unknown between them, and tell their numbers."""
    parts = {"proved": (0.0, found.certified), "open": (found.certified, found.attacked)}
    places = {
        name: f"left:{100 * low:.1f}%;width:{100 * (high - low):.1f}%" for name, (low, high) in parts.items()
    }
    bar = tag(
        "div",
        *(tag("span", class_=name, style=place) for name, place in places.items()),
        tag("span", class_="dot", style=f"left:{100 * found.attacked:.1f}%"),
        tag("span", class_="tick", style=f"left:{100 * found.clean:.1f}%"),
        class_="ruler",
        aria_hidden="true",
    )
    sides = (
        tag("b", text.percent(found.certified)),
        f" certified ({found.method}) to ",
        tag("b", text.percent(found.attacked)),
        f" under attack, {found.examples} images",
    )
    return join(bar, tag("p", *sides, class_="sides"))


def _comparison(runs: Sequence[RunContent], leading: Sequence[int]) -> Html:
    """Draw how much runs differ from the first and from the best, on the same examples."""
    first, top = runs[0], runs[leading[0]] if leading else runs[0]
    columns = [
        (f"clean, against {first.name}", first, CLEAN),
        (f"robust, against {first.name}", first, WORST),
    ]
    if top is not first:
        columns.append((f"robust, against {top.name} (best)", top, WORST))
    rows = []
    for run in runs:
        masked = join(run.name, " ", mark("masked", run.verdict.text)) if run.verdict.is_masked else None
        rows.append(
            row(run.name, *(_difference(run, other, name) for _, other, name in columns), label=masked)
        )
    made = table(
        tag("tr", heading("run"), *(heading(title) for title, _, _ in columns)),
        rows,
        caption="Differences in points, with paired 95% intervals on the same examples",
        kind="numbers wraps",
    )
    return join(tag("h3", "Differences"), *(missing(caveat) for caveat in caveats(runs)), made)


def _difference(run: RunContent, other: RunContent, label: str) -> Html:
    if run is other:
        return cell("-")
    found = difference(run.assessment, other.assessment, label)
    if found is None:
        return cell("not comparable", kind="none")
    note = "no clear difference" if found.low <= 0 <= found.high else None
    if label == WORST and (run.verdict.is_masked or other.verdict.is_masked):
        note = "not to be trusted"
    small = tag("span", note, class_="small") if note else None
    return cell(join(points(found), " ", small), sort=found.difference)
