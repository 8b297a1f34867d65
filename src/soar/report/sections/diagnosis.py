"""The evidence for and against every run, the gravest first."""

from __future__ import annotations

from collections.abc import Sequence

from soar.evaluation.diagnosis import CheckResult
from soar.report.content import RunContent, Standing, standing
from soar.report.markup import Html, tag
from soar.report.sections.layout import code, mark, missing, panels, section


def diagnosis(runs: Sequence[RunContent]) -> Html:
    """Show every check with its finding, numbers and rule, and what to run next."""
    return section(
        "diagnosis",
        "Can the numbers be trusted?",
        panels("diagnosis", runs, _panel),
        lead="A masked gradient stops attacks without making the model robust. Each check looks for one sign"
        " of it; the gravest finding is the verdict.",
    )


def _panel(_place: int, run: RunContent) -> Html:
    found, verdict = run.diagnosis, standing(run)
    if found is None:
        return missing(f"{run.name} was not diagnosed: ", code("soar diagnose RUN"))
    unmade = sum(not one.was_run for one in found.checks)
    summary = tag(
        "p",
        mark(verdict),
        f" {len(found.against)} of {len(found.checks)} checks speak against the model"
        + (f", {unmade} could not be made" if unmade else "")
        + f", on {found.examples} images of {found.data}, {found.threat}, seed {found.seed}.",
        class_="summary",
    )
    partly = None
    if not found.is_complete:
        partly = missing("Only the checks that cost next to nothing were made. All of them: ",
                         code("soar diagnose RUN"))  # fmt: skip
    return tag("div", summary, partly, _advice(found.advice), *(_item(one) for one in found.checks))


def _advice(lines: Sequence[str]) -> Html | None:
    if not lines:
        return None
    listed = tag("ol", *(tag("li", line) for line in lines))
    return tag("div", tag("h4", "What to run next"), listed, class_="advice")


def _item(one: CheckResult) -> Html:
    finding = Standing(one.finding, one.finding, one.sentence)
    rows = [
        tag("tr", tag("th", name.replace("_", " "), scope="row"), tag("td", written(value)))
        for name, value in one.numbers.items()
    ]
    numbers = tag("table", tag("caption", "What was measured"), tag("tbody", *rows), class_="measured")
    return tag(
        "details",
        tag("summary", mark(finding), " ", tag("b", one.title), tag("span", one.sentence, class_="sentence")),
        tag("p", tag("b", "Rule: "), one.rule, class_="small"),
        tag("p", tag("b", "Next: "), one.advice, class_="small") if one.advice else None,
        tag("div", numbers, class_="scroll", tabindex=0, role="region", aria_label=f"Numbers: {one.title}")
        if rows
        else None,
        class_=f"evidence {one.finding}",
        open=one.finding != "sound",
    )


def written(value: float | int | str | None) -> str:
    """Write a number that was measured so that it can be read.

    >>> [written(value) for value in (0.56251, 12, None, "ce", 1e-12)]
    ['0.5625', '12', '-', 'ce', '1e-12']
    """
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
