"""How training went: what was logged, and the guards that fired."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from soar.report.content import RunContent
from soar.report.drawing.charts import line_chart
from soar.report.drawing.data import Curve
from soar.report.markup import Html, join, tag
from soar.report.sections.layout import chart, code, labeled, missing, section

# What everyone wants to see, with its title; what else was logged is folded up under its own name.
_TITLES = {
    "loss": "Training loss",
    "penalty": "Penalty (part of the loss)",
    "clean": "Clean validation accuracy",
    "robust": "Robust validation accuracy",
    "lr": "Learning rate",
}
_ACCURACIES = frozenset({"clean", "robust", "accuracy"})
_SHARES = _ACCURACIES | {"clamped", "confidence"}
# Of a single run these share a chart; of several, every chart shows one quantity of all runs.
_TOGETHER = {"Loss and penalty": ("loss", "penalty"), "Validation accuracy": ("clean", "robust")}


def training(runs: Sequence[RunContent]) -> Html:
    """Chart what training logged, and list the guards that fired."""
    known = [run for run in runs if run.training]
    without = [run.name for run in runs if not run.training]
    names = dict.fromkeys(curve.label for run in known for curve in run.training)
    main = (
        _of_one(known[0]) if len(known) == 1 else [_of_all(known, name) for name in _TITLES if name in names]
    )
    more = [_of_all(known, name) for name in names if name not in _TITLES]
    return section(
        "training",
        "How training went",
        tag("div", *main, class_="charts") if main else None,
        _folded(more) if more else None,
        _guards(runs) if known else None,
        missing(f"No curve of {', '.join(without)}: ", code("soar train"), " writes what they are made of.")
        if without
        else None,
    )


def _of_one(run: RunContent) -> list[Html]:
    left = {curve.label: curve for curve in run.training if curve.label in _TITLES}
    charts = []
    for title, names in _TOGETHER.items():
        curves = [left.pop(name) for name in names if name in left]
        if curves:
            charts.append(_chart(title, curves, curves[0].label))
    return charts + [_chart(_TITLES[name], [curve], name) for name, curve in left.items()]


def _of_all(runs: Sequence[RunContent], name: str) -> Html:
    """Chart one quantity of all runs; a run without it keeps its color for itself."""
    curves = []
    for run in runs:
        found = next((curve for curve in run.training if curve.label == name), Curve(label=name, x=(), y=()))
        curves.append(replace(found, label=labeled(run)))
    return _chart(_TITLES.get(name, name.replace("_", " ")), curves, name)


def _chart(title: str, curves: Sequence[Curve], name: str) -> Html:
    label = "accuracy" if name in _ACCURACIES else name.replace("_", " ")
    return chart(line_chart(curves, title=title, x_label="epoch", y_label=label, percent=name in _SHARES))


def _folded(charts: Sequence[Html]) -> Html:
    summary = tag("summary", f"{len(charts)} more curves")
    return tag("details", summary, tag("div", *charts, class_="charts"), class_="more")


def _guards(runs: Sequence[RunContent]) -> Html:
    fired = [tag("li", tag("b", f"{run.name}: "), line) for run in runs for line in run.guards]
    if not fired:
        return tag("p", "No guard fired.", class_="small")
    return join(tag("h3", "Guards that fired"), tag("ul", *fired, class_="guards"))
