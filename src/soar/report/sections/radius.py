"""Accuracy against the radius."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from soar import epsilon
from soar.report.content import RunContent, standing
from soar.report.drawing.charts import line_chart
from soar.report.markup import Html, tag
from soar.report.sections.headline import distrusted
from soar.report.sections.layout import chart, code, labeled, missing, section


def radius(runs: Sequence[RunContent]) -> Html:
    """Chart accuracy against the radius: the worst case of all runs, then every attack of each run."""
    known = [run for run in runs if run.accuracy_by_eps]
    charts = [_by_attack(run) for run in known]
    if len(known) > 1 and len({run.assessment.threat.norm_name for run in known}) == 1:
        charts.insert(0, _worst_cases(known))
    without = [run.name for run in runs if not run.accuracy_by_eps]
    counts = sorted({run.curve_examples for run in known})
    return section(
        "radius",
        "Accuracy against eps",
        distrusted(known),
        tag("div", *charts, class_="charts") if charts else None,
        missing(
            f"No curve of {', '.join(without)}: it is measured by ",
            code("soar report"),
            " from the run's model.",
        )
        if without
        else None,
        tag(
            "p",
            f"Measured on {' or '.join(map(str, counts))} images; bands are 95% intervals.",
            class_="small",
        )
        if known
        else None,
        lead="A sound curve falls steadily and reaches 0% once the radius is large enough. A curve that"
        " stays up says that the attack failed, not that the model is robust.",
    )


def _by_attack(run: RunContent) -> Html:
    found, verdict = run.assessment, standing(run)
    title = f"{run.name}: {verdict.word}, not to be trusted" if verdict.is_masked else run.name
    drawing = line_chart(
        run.accuracy_by_eps,
        title=title,
        x_label=f"eps ({found.threat.norm_name})",
        y_label="accuracy",
        percent=True,
        x_ticks=_ticks(run),
        marked=found.threat.radius,
        strong=run.accuracy_by_eps[-1].label,
    )
    return chart(drawing, verdict.kind)


def _worst_cases(runs: Sequence[RunContent]) -> Html:
    curves = [replace(run.accuracy_by_eps[-1], label=labeled(run)) for run in runs]
    threats = {run.assessment.threat for run in runs}
    drawing = line_chart(
        curves,
        title="Worst case of all attacks",
        x_label=f"eps ({runs[0].assessment.threat.norm_name})",
        y_label="accuracy",
        percent=True,
        x_ticks=_ticks(runs[0]),
        marked=runs[0].assessment.threat.radius if len(threats) == 1 else None,
    )
    return chart(drawing)


def _ticks(run: RunContent) -> list[tuple[float, str]]:
    """Name a few radii as people write them."""
    size = run.assessment.threat.eps
    wanted = {place * size: place * size <= max(run.accuracy_by_eps[-1].x) for place in (1, 2, 4, 8)}
    return [(0.0, "0"), *((float(eps), epsilon.show(eps)) for eps, fits in wanted.items() if fits)]
