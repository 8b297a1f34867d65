"""Accuracy by class, and which classes adversarial examples are classified as."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import Tensor

from soar.evaluation import Assessment
from soar.evaluation.assessment import WORST
from soar.report.csv_link import Value, csv_link
from soar.report.markup import Html, cell, heading, join, panels, row, section, table, tag
from soar.text import percent

if TYPE_CHECKING:
    from soar.report.content import RunContent

# More rows than this are not read, and thousands would fill the page.
_MOST = 100
_CONFUSIONS = 3
_OUTCOMES = {
    "robust": "robust",
    "broken": "broken by an attack",
    "wrong": "misclassified without an attack",
}


@dataclass(frozen=True, kw_only=True)
class ClassOutcome:
    """The examples of one class under the worst case of all attacks."""

    label: int
    examples: int
    correct: int
    robust: int
    into: tuple[tuple[int, int], ...]
    """classes that broken examples are classified as, with their number, the most frequent first"""


def class_outcomes(found: Assessment, classes: int, ends: Tensor | None) -> tuple[ClassOutcome, ...]:
    """Count the correctly classified and the robust examples of every class, and what the others become.

    Args:
        found: the outcomes of all attacks
        classes: how many classes there are
        ends: the class that each broken example is classified as; the label itself, or None, if not known
    """
    robust = found.survivors(WORST)
    ends = found.labels if ends is None else ends
    is_broken = found.correct & ~robust & (ends != found.labels)
    outcomes = []
    for label in range(classes):
        mine = found.labels == label
        into = Counter(ends[mine & is_broken].tolist())
        outcomes.append(
            ClassOutcome(
                label=label,
                examples=int(mine.sum()),
                correct=int((mine & found.correct).sum()),
                robust=int((mine & robust).sum()),
                into=tuple(sorted(into.items(), key=lambda pair: (-pair[1], pair[0]))),
            )
        )
    return tuple(outcomes)


def draw(runs: Sequence[RunContent]) -> Html:
    """Draw every class of every run, the least robust first."""
    return section(
        "classes",
        "By class",
        panels("classes", runs, _panel),
        lead="Under the worst case of all attacks, the least robust class first.",
    )


def _panel(_place: int, run: RunContent) -> Html:
    ordered = sorted(run.class_outcomes, key=lambda one: (one.robust / max(1, one.examples), one.label))
    columns = ("class", "images", "clean", "robust", "outcomes", "broken images are classified as")
    keys = (
        join(tag("span", class_=f"key {kind}", aria_hidden="true"), f" {text}   ")
        for kind, text in _OUTCOMES.items()
    )
    left = len(ordered) - _MOST
    rest = tag("p", f"{left} more classes, all of them more robust, are only in the CSV.", class_="small")
    return tag(
        "div",
        tag("p", *keys, class_="legend small"),
        table(
            tag("tr", *(heading(name, kind="words" if name in columns[-2:] else "") for name in columns)),
            [_row(one, run) for one in ordered[:_MOST]],
            caption=f"Classes of {run.name}",
            kind="numbers classes",
            below=_csv(ordered, run),
        ),
        rest if left > 0 else None,
    )


def _row(one: ClassOutcome, run: RunContent) -> Html:
    count = max(1, one.examples)
    robust, broken = one.robust / count, (one.correct - one.robust) / count
    shares = (("robust", robust), ("broken", broken), ("wrong", max(0.0, 1 - robust - broken)))
    parts = [tag("span", class_=kind, style=f"width:{100 * share:.1f}%") for kind, share in shares]
    into = ", ".join(f"{run.classes[label]} {number}" for label, number in one.into[:_CONFUSIONS])
    return row(
        run.classes[one.label],
        cell(str(one.examples), sort=one.examples),
        cell(percent(one.correct / count), sort=one.correct / count),
        cell(percent(robust), sort=robust),
        cell(tag("span", *parts, class_="stack", aria_hidden="true"), sort=broken),
        cell(into or "-", sort=one.into[0][1] if one.into else 0, kind="words"),
    )


def _csv(outcomes: Sequence[ClassOutcome], run: RunContent) -> Html:
    """Return all classes with the number of images behind every share."""
    rows: list[Sequence[Value]] = [("run", "class", "images", "correct", "robust", "broken into")]
    for one in outcomes:
        into = ", ".join(f"{run.classes[label]} {number}" for label, number in one.into)
        rows.append((run.name, run.classes[one.label], one.examples, one.correct, one.robust, into))
    return csv_link("by-class", rows)
