"""Assessments as tables for the terminal."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from soar.evaluation.assessment import WORST, Assessment

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


def table(assessment: Assessment) -> Table:
    """Make a table of one assessment: clean, each attack, worst case, with intervals and passes."""
    from rich import box
    from rich.table import Table

    made = Table(
        box=box.SIMPLE_HEAD,
        title=_title(assessment),
        title_justify="left",
        caption=_caption(assessment),
        caption_justify="left",
    )
    made.add_column("attack")
    for heading in ("accuracy", "95 % interval", "forward", "backward", "seconds"):
        made.add_column(heading, justify="right")
    cumulative = {result.label for result in assessment.attacks if result.survivors_only}
    seconds = {result.label: result.seconds for result in assessment.attacks}
    for name in assessment.names:
        forward, backward = assessment.passes(name)
        time = sum(seconds.values()) if name == WORST else seconds.get(name)
        made.add_row(
            f"{name} *" if name in cumulative else name,
            percent(assessment.accuracy(name)),
            between(assessment.interval(name)),
            f"{forward:.1f}",
            f"{backward:.1f}",
            "" if time is None else f"{time:.1f}",
            style="bold" if name == WORST else "",
        )
    return made


def protocol(assessment: Assessment) -> list[str]:
    """Write every attack with all its numbers, and on whom it was run, a line each."""
    lines = []
    for result in assessment.attacks:
        numbers = ", ".join(f"{name} {value}" for name, value in result.parameters.items())
        on = "survivors" if result.survivors_only else "all that are right"
        mean = f", mean of {result.samples} answers" if result.samples > 1 else ""
        lines.append(f"{result.label}: {numbers or 'no options'}; on {on}{mean}")
    return lines


def save_picture(console: Console, path: Path) -> None:
    """Write what a recording console has shown as an SVG picture that needs nothing from the network."""
    picture = console.export_svg(title="soar demo", clear=False)
    path.write_text(re.sub(r"@font-face\s*{.*?}", "", picture, flags=re.DOTALL))


def percent(share: float) -> str:
    """Write a share in per cent.

    >>> percent(0.5625)
    '56.2 %'
    """
    return f"{100 * share:.1f} %"


def between(limits: tuple[float, float]) -> str:
    """Write an interval in per cent.

    >>> between((0.1, 0.25))
    '10.0 - 25.0'
    """
    return f"{100 * limits[0]:.1f} - {100 * limits[1]:.1f}"


def _caption(assessment: Assessment) -> str:
    caption = "forward and backward: passes an image"
    if any(result.survivors_only for result in assessment.attacks):
        caption += "\n* on what earlier attacks have left; the accuracy is what is left then"
    return caption


def _title(assessment: Assessment) -> str:
    return f"{assessment.model} on {len(assessment)} images of {assessment.data}, {assessment.threat}"
