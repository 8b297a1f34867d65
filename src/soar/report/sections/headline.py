"""The first thing a reader sees: accuracy, robust accuracy, and whether to believe it."""

from __future__ import annotations

from collections.abc import Sequence

from soar.evaluation.assessment import CLEAN, WORST, Assessment
from soar.report.comparison import best, caveats, difference, is_clear, points
from soar.report.content import DISTRUST, Kind, RunContent, standing
from soar.report.markup import Html, join, tag
from soar.report.sections.layout import cell, heading, mark, missing, section, table
from soar.text import interval, percent

_WARNINGS: dict[Kind, str] = {
    "masked": "Not to be trusted",
    "suspicious": "Not to be quoted yet",
    "inconclusive": "Not confirmed",
}


def headline(runs: Sequence[RunContent]) -> Html:
    """Show the numbers that matter of every run, and how they differ."""
    leading = best(runs)
    cards = [_card(run, is_best=place in leading) for place, run in enumerate(runs)]
    return section(
        "headline",
        "What was found",
        *(_alarm(run) for run in runs if standing(run).is_masked),
        tag("div", *cards, class_="cards headline"),
        _comparison(runs, leading) if len(runs) > 1 else None,
    )


def _alarm(run: RunContent) -> Html:
    """Warn of a masked run before anything else is read."""
    found, reached = standing(run), percent(run.assessment.worst_case)
    sign = tag("span", found.sign, class_="sign", aria_hidden="true")
    return tag(
        "div",
        tag("strong", sign, f" {run.name} is masked: its {reached} is not to be trusted."),
        " Attacks that follow the gradient are misled here, so this is an upper bound and not robustness. ",
        found.reason,
        class_="alarm",
        role="alert",
    )


def _card(run: RunContent, *, is_best: bool) -> Html:
    found, verdict = run.assessment, standing(run)
    low, high = found.interval(WORST)
    star = tag("span", "★ best", class_="best", title="highest worst-case accuracy of the runs to trust")
    number = tag("del" if verdict.is_masked else "span", percent(found.worst_case), class_="big")
    warning = _WARNINGS.get(verdict.kind)
    return tag(
        "article",
        tag("header", tag("h3", run.name), star if is_best else None),
        tag("p", number, class_="number"),
        tag("p", tag("strong", f"{verdict.sign} {warning}"), class_="distrust") if warning else None,
        tag("p", tag("b", "robust accuracy"), ", worst case of all attacks", class_="what"),
        tag("p", f"95% interval {interval(low, high)}%", class_="interval"),
        _ruler(found),
        tag("p", tag("b", percent(found.accuracy(CLEAN))), f" clean, {interval(*found.interval(CLEAN))}%"),
        tag("p", mark(verdict), class_="judgment"),
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


def _comparison(runs: Sequence[RunContent], leading: Sequence[int]) -> Html:
    """Show how much runs differ from the first and from the best, on the same examples."""
    first, top = runs[0], runs[leading[0]] if leading else runs[0]
    columns = [
        (f"clean, against {first.name}", first, CLEAN),
        (f"robust, against {first.name}", first, WORST),
    ]
    if top is not first:
        columns.append((f"robust, against {top.name} (best)", top, WORST))
    rows = [
        tag("tr", _name(run), *(_difference(run, other, name) for _, other, name in columns)) for run in runs
    ]
    made = table(
        tag("tr", heading("run"), *(heading(title) for title, _, _ in columns)),
        rows,
        caption="Differences in points, with paired 95% intervals on the same examples",
        kind="numbers wraps",
    )
    return join(tag("h3", "Differences"), *(missing(text) for text in caveats(runs)), made)


def _name(run: RunContent) -> Html:
    found = standing(run)
    return tag("th", run.name, " ", mark(found) if found.is_masked else None, scope="row", data_sort=run.name)


def _difference(run: RunContent, other: RunContent, name: str) -> Html:
    if run is other:
        return cell("-")
    found = difference(run.assessment, other.assessment, name)
    if found is None:
        return cell("not comparable", kind="none")
    word = None if is_clear(found) else "no clear difference"
    if name == WORST and (standing(run).is_masked or standing(other).is_masked):
        word = "not to be trusted"
    note = tag("span", word, class_="small") if word else None
    return cell(join(points(found), " ", note), sort=found.difference)


def distrusted(runs: Sequence[RunContent]) -> Html | None:
    """Say under a table or chart which of its runs are not to be trusted."""
    names = [run.name for run in runs if standing(run).is_masked]
    if not names:
        return None
    return tag("p", tag("strong", f"✗ {', '.join(names)}: "), DISTRUST, class_="alarm small")
