"""What every attack did to every run."""

from __future__ import annotations

from collections.abc import Sequence

from soar.evaluation import Assessment
from soar.evaluation.assessment import CLEAN, WORST
from soar.report.content import RunContent, standing
from soar.report.markup import Html, join, tag
from soar.report.sections.headline import distrusted
from soar.report.sections.layout import bar, cell, heading, mark, missing, section, table
from soar.text import interval, percent


def attacks(runs: Sequence[RunContent]) -> Html:
    """Make the table by attack, runs as columns."""
    if not any(run.assessment.attacks for run in runs):
        how = missing("No attack was run: ", tag("code", "soar evaluate RUN --attacks standard"))
        return section("attacks", "By attack", how)
    tops = [heading("attack", rowspan=2), *(_run_heading(run) for run in runs)]
    parts = ("accuracy", "passes", "seconds")
    below = [
        heading(part, kind="starts" if part == parts[0] else "", aria_label=f"{run.name}, {part}")
        for run in runs
        for part in parts
    ]
    rows = [_row(label, runs) for label in (CLEAN, *labels(runs))]
    cumulative = any(result.survivors_only for run in runs for result in run.assessment.attacks)
    note = "* on what earlier attacks have left; the accuracy is what is left then" if cumulative else None
    return section(
        "attacks",
        "By attack",
        distrusted(runs),
        table(
            join(tag("tr", *tops), tag("tr", *below)),
            rows,
            caption="Accuracy under each attack, with 95% intervals",
            foot=_row(WORST, runs),
            kind="numbers attacks" + (" dense" if len(runs) > 2 else ""),
        ),
        tag("p", note, class_="small") if note else None,
        lead="The lower, the stronger the attack. Only the worst case of all attacks says how robust a run"
        " is. Passes are predictions and gradients an image. Click a heading to sort.",
    )


def labels(runs: Sequence[RunContent]) -> list[str]:
    """Return the attacks of all runs, each once, in the order in which they were run."""
    return list(dict.fromkeys(result.label for run in runs for result in run.assessment.attacks))


def _run_heading(run: RunContent) -> Html:
    found = standing(run)
    verdict = mark(found) if found.kind not in ("sound", "unknown") else None
    return tag("th", run.name, " ", verdict, scope="colgroup", colspan=3, class_="starts")


def _row(label: str, runs: Sequence[RunContent]) -> Html:
    cumulative = any(r.survivors_only and r.label == label for run in runs for r in run.assessment.attacks)
    name = tag("th", f"{label} *" if cumulative else label, scope="row", data_sort=label)
    cells = [one for run in runs for one in _cells(label, run)]
    return tag("tr", name, *cells, class_="worst" if label == WORST else None)


def _cells(label: str, run: RunContent) -> list[Html]:
    found = run.assessment
    if label not in found.names:
        return [cell("not run", kind="starts none"), cell("-"), cell("-")]
    share, time = found.accuracy(label), seconds(found, label)
    forward, backward = found.passes(label)
    is_masked = standing(run).is_masked and label != CLEAN
    number = tag("del" if is_masked and label == WORST else "b", percent(share))
    range_ = tag("span", interval(*found.interval(label)), class_="small")
    return [
        cell(join(number, " ", range_, bar(share, "masked" if is_masked else "")), sort=share, kind="starts"),
        cell(f"{forward:.1f} + {backward:.1f}", sort=forward + backward),
        cell("-" if time is None else f"{time:.1f}", sort=time),
    ]


def seconds(found: Assessment, label: str) -> float | None:
    """Return how long an attack took; the worst case stands for all of them, clean images are not timed."""
    taken = {result.label: result.seconds for result in found.attacks}
    return sum(taken.values()) if label == WORST else taken.get(label)
