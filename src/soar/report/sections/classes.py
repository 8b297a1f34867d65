"""Which classes break, and into what."""

from __future__ import annotations

from collections.abc import Sequence

from soar.report.content import Broken, RunContent
from soar.report.markup import Html, join, tag
from soar.report.sections.layout import cell, heading, missing, panels, section, table
from soar.text import percent

# More rows than this are not read, and thousands would fill the page.
_MOST = 100
_CONFUSIONS = 3
_FATES = {"robust": "stays right", "broken": "broken by an attack", "wrong": "wrong from the start"}


def classes(runs: Sequence[RunContent]) -> Html:
    """Show every class of every run, the weakest first."""
    known = [run for run in runs if run.classes_broken]
    without = [run.name for run in runs if not run.classes_broken]
    how = missing(f"No outcome by class of {', '.join(without)}: make the report again with the run's model.")
    return section(
        "classes",
        "Class by class",
        panels("classes", known, _panel) if known else None,
        how if without else None,
        lead="Under the worst case of all attacks, the weakest class first.",
    )


def _panel(_place: int, run: RunContent) -> Html:
    weakest = sorted(run.classes_broken, key=lambda one: (one.robust / max(1, one.examples), one.label))
    columns = ("class", "images", "clean", "robust", "what happens", "broken ones end in")
    legend = tag(
        "p",
        *(
            join(tag("span", class_=f"key {kind}", aria_hidden="true"), f" {text}   ")
            for kind, text in _FATES.items()
        ),
        class_="legend small",
    )
    left = len(weakest) - _MOST
    return tag(
        "div",
        legend,
        table(
            tag("tr", *(heading(name, kind="words" if name in columns[-2:] else "") for name in columns)),
            [_row(one, run) for one in weakest[:_MOST]],
            caption=f"Classes of {run.name}",
            kind="numbers classes",
        ),
        tag("p", f"{left} more classes, all of them more robust, are left out.", class_="small")
        if left > 0
        else None,
    )


def _row(one: Broken, run: RunContent) -> Html:
    count = max(1, one.examples)
    robust, broken = one.robust / count, (one.correct - one.robust) / count
    shares = (("robust", robust), ("broken", broken), ("wrong", max(0.0, 1 - robust - broken)))
    parts = [tag("span", class_=kind, style=f"width:{100 * share:.1f}%") for kind, share in shares]
    into = ", ".join(f"{run.classes[label]} {number}" for label, number in one.into[:_CONFUSIONS])
    name = run.classes[one.label]
    return tag(
        "tr",
        tag("th", name, scope="row", data_sort=name),
        cell(str(one.examples), sort=one.examples),
        cell(percent(one.correct / count), sort=one.correct / count),
        cell(percent(robust), sort=robust),
        cell(tag("span", *parts, class_="stack", aria_hidden="true"), sort=broken),
        cell(into or "-", sort=one.into[0][1] if one.into else 0, kind="words"),
    )
