"""Assessments as tables for the terminal."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from soar import files
from soar.errors import printable
from soar.evaluation.assessment import WORST, Assessment

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from soar.evaluation.compare import Comparison


def table(assessment: Assessment) -> Table:
    """Make a table of one assessment: clean, each attack, worst case, with intervals and passes."""
    headings = ("accuracy", "95 % interval", "forward", "backward", "seconds")
    made = _empty(_title(assessment), _caption(assessment), headings)
    cumulative = {result.label for result in assessment.attacks if result.survivors_only}
    seconds = {result.label: result.seconds for result in assessment.attacks}
    for name in assessment.names:
        forward, backward = assessment.passes(name)
        time = sum(seconds.values()) if name == WORST else seconds.get(name)
        made.add_row(
            _as_it_is(f"{name} *" if name in cumulative else name),
            percent(assessment.accuracy(name)),
            between(assessment.interval(name)),
            f"{forward:.1f}",
            f"{backward:.1f}",
            "" if time is None else f"{time:.1f}",
            style="bold" if name == WORST else "",
        )
    return made


def comparison_table(comparison: Comparison) -> Table:
    """Make a table of two assessments side by side: clean, each attack in common, worst case."""
    title = (
        f"{comparison.first} (first) and {comparison.second} (second) on {comparison.examples} images of"
        f" {comparison.data}, {comparison.threat}"
    )
    headings = ("first", "second", "difference", "95 % interval", "only first", "only second")
    made = _empty(title, _left_out(comparison), headings)
    for row in comparison.rows:
        made.add_row(
            _as_it_is(row.name),
            percent(row.first),
            percent(row.second),
            f"{100 * row.difference:+.1f}",
            f"{100 * row.low:+.1f} to {100 * row.high:+.1f}",
            str(row.only_first),
            str(row.only_second),
            style="bold" if row.name == WORST else "",
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
    files.write(path, re.sub(r"@font-face\s*{.*?}", "", picture, flags=re.DOTALL))


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


def _empty(title: str, caption: list[str], headings: tuple[str, ...]) -> Table:
    """Make a table without rows, whose first column names the attacks."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    made = Table(
        box=box.SIMPLE_HEAD,
        title=_as_it_is(title, "table.title"),
        title_justify="left",
        caption=Text("\n").join(_as_it_is(line, "table.caption") for line in caption),
        caption_justify="left",
    )
    made.add_column("attack")
    for heading in headings:
        made.add_column(heading, justify="right")
    return made


def _as_it_is(text: str, style: str = "") -> Text:
    """Return a text that may hold anyone's names: no brackets are markup, no character moves the cursor."""
    from rich.text import Text

    return Text(printable(text), style=style)


def _caption(assessment: Assessment) -> list[str]:
    caption = ["forward and backward: passes an image"]
    if any(result.survivors_only for result in assessment.attacks):
        caption.append("* on what earlier attacks have left; the accuracy is what is left then")
    return caption


def _left_out(comparison: Comparison) -> list[str]:
    lines = [
        "difference: first minus second, in points, on the same images",
        "only first, only second: images that only one of them gets right",
    ]
    if comparison.left_out:
        lines.append(f"{comparison.left_out} images that only one of them holds are left out")
    if comparison.attacks_left_out:
        lines.append(f"not run on both in the same way: {', '.join(comparison.attacks_left_out)}")
    return lines


def _title(assessment: Assessment) -> str:
    return f"{assessment.model} on {len(assessment)} images of {assessment.data}, {assessment.threat}"
