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
        caption="forward and backward: passes an image",
        caption_justify="left",
    )
    made.add_column("attack")
    for heading in ("accuracy", "95 % interval", "forward", "backward", "seconds"):
        made.add_column(heading, justify="right")
    seconds = {result.label: result.seconds for result in assessment.attacks}
    for name in assessment.names:
        forward, backward = assessment.passes(name)
        time = sum(seconds.values()) if name == WORST else seconds.get(name)
        made.add_row(
            name,
            percent(assessment.accuracy(name)),
            between(assessment.interval(name)),
            f"{forward:.1f}",
            f"{backward:.1f}",
            "" if time is None else f"{time:.1f}",
            style="bold" if name == WORST else "",
        )
    return made


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


def _title(assessment: Assessment) -> str:
    return f"{assessment.model} on {len(assessment)} images of {assessment.data}, {assessment.threat}"
