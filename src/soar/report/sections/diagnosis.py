"""The evidence for and against gradient masking in every run, the most severe first."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from soar.evaluation.diagnosis import CheckResult
from soar.report.content import RunContent
from soar.report.markup import Html, mark, missing, panels, section, tag


def draw(runs: Sequence[RunContent]) -> Html:
    """Draw every check with its finding, numbers and rule, and what to do next."""
    return section(
        "diagnosis",
        "Can the numbers be trusted?",
        panels("diagnosis", runs, partial(_panel, runs)),
        lead="A masked gradient stops attacks without making the model robust. Each check looks for one sign"
        " of it; the most severe finding is the verdict. It is on the measurement, not on the model: one"
        " that is not robust at all is called sound where its number can be trusted.",
    )


def _panel(runs: Sequence[RunContent], _place: int, run: RunContent) -> Html:
    found, command = run.diagnosis, f"soar diagnose {run.folder}"
    if found is None:
        return missing(f"{run.name} was not diagnosed: ", tag("code", command))
    unmade = sum(not one.was_run for one in found.checks)
    summary = tag(
        "p",
        mark(run.verdict.kind, run.verdict.text),
        f" {len(found.against)} of {len(found.checks)} checks speak against the measurement"
        + (f", {unmade} could not be made" if unmade else "")
        + (", at the threshold: more images would decide" if found.is_at_threshold else "")
        + f", on {found.examples} images of {found.data}, {found.threat}, seed {found.seed}.",
        class_="summary",
    )
    partly = missing(
        "Only the checks that cost next to nothing were made. All of them: ", tag("code", command)
    )
    others = [one.folder for one in runs if one is not run and one.assessment.data == run.assessment.data]
    commands = found.commands(run.folder, others)
    advice = tag(
        "div",
        tag("h4", "What to do next"),
        tag("ol", *(tag("li", line) for line in commands)),
        class_="advice",
    )
    return tag(
        "div",
        summary,
        None if found.is_complete else partly,
        advice if commands else None,
        *(_check(one) for one in found.checks),
    )


def _check(one: CheckResult) -> Html:
    rows = [
        tag("tr", tag("th", name.replace("_", " "), scope="row"), tag("td", _number(value)))
        for name, value in one.numbers.items()
    ]
    numbers = tag("table", tag("caption", "Measurements"), tag("tbody", *rows), class_="measured")
    title = mark(one.finding, one.finding)
    return tag(
        "details",
        tag("summary", title, " ", tag("b", one.title), tag("span", one.sentence, class_="sentence")),
        tag("p", tag("b", "Rule: "), one.rule, class_="small"),
        tag("div", numbers, class_="scroll", tabindex=0, role="region", aria_label=f"Numbers: {one.title}")
        if rows
        else None,
        class_=f"evidence {one.finding}",
        open=one.finding != "sound",
    )


def _number(value: float | int | str | None) -> str:
    """Format a measurement.

    >>> [_number(value) for value in (0.56251, 12, None, "ce", 1e-12)]
    ['0.5625', '12', '-', 'ce', '1e-12']
    """
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
