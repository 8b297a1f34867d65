"""Accuracy under common corruptions, by corruption and severity."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from soar.evaluation.corruptions import MEAN, Corruptions, corruption_rows
from soar.report.markup import Html, cell, heading, join, missing, panels, row, section, table, tag

if TYPE_CHECKING:
    from soar.report.content import RunContent


def draw(runs: Sequence[RunContent]) -> Html:
    """Draw accuracy under corruptions; nothing where no run was measured."""
    if not any(run.corruptions for run in runs):
        return Html("")
    return section(
        "corruptions",
        "Common corruptions",
        panels("corruptions", runs, lambda _, run: _panel(run)),
        lead="Noise, blur, weather and compression are no adversary: what a model meets without one.",
    )


def _panel(run: RunContent) -> Html:
    found = run.corruptions
    if found is None:
        return missing(f"Not measured: soar evaluate {run.folder} --corruptions.")
    columns = ["corruption", *(f"severity {severity}" for severity in found.severities), MEAN]
    made = table(
        tag("tr", *(heading(name) for name in columns)),
        [_row(found, place, cells) for place, cells in enumerate(corruption_rows(found))],
        caption=f"Corruptions of {run.name}",
        kind="numbers",
    )
    return join(made, tag("p", f"{len(found.results[0].correct)} images, {found.source}.", class_="small"))


def _row(found: Corruptions, place: int, cells: list[str]) -> Html:
    name, *texts = cells
    # The last row is the mean of all.
    own = (*found.names, None)[place]
    shares = [*(found.accuracy(own, severity) for severity in found.severities), found.accuracy(own)]
    return row(name, *(cell(text, sort=share) for text, share in zip(texts, shares, strict=True)))
