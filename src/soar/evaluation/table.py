"""Assessments and diagnoses for the terminal."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from soar import files
from soar.evaluation.assessment import WORST, Assessment
from soar.evaluation.diagnosis import Diagnosis, Verdict
from soar.text import interval, percent

if TYPE_CHECKING:
    from rich.console import Console, Group
    from rich.table import Table


STYLES: dict[Verdict, str] = {"sound": "bold green", "suspicious": "bold yellow", "masked": "bold red"}
MEANING: dict[Verdict, str] = {
    "sound": "nothing speaks against it; what attacks found is what there is to find",
    "suspicious": "some attacks may have been misled; do not quote its robust accuracy before the next steps",
    "masked": "attacks were misled by hidden gradients; its robust accuracy under them means nothing",
}


def table(assessment: Assessment) -> Table:
    """Make a table of one assessment: clean, each attack, worst case, with intervals and passes."""
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    made = Table(
        box=box.SIMPLE_HEAD,
        title=escape(_title(assessment)),
        title_justify="left",
        caption=_caption(assessment),
        caption_justify="left",
    )
    made.add_column("attack")
    for heading in ("accuracy", "95% interval", "forward", "backward", "seconds"):
        made.add_column(heading, justify="right")
    cumulative = {result.label for result in assessment.attacks if result.survivors_only}
    seconds = {result.label: result.seconds for result in assessment.attacks}
    for name in assessment.names:
        forward, backward = assessment.passes(name)
        time = sum(seconds.values()) if name == WORST else seconds.get(name)
        made.add_row(
            escape(f"{name} *" if name in cumulative else name),
            percent(assessment.accuracy(name)),
            interval(*assessment.interval(name)),
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
    files.write(path, re.sub(r"@font-face\s*{.*?}", "", picture, flags=re.DOTALL))


def verdict_table(found: Diagnosis, run: str = "RUN") -> Group:
    """Make what is printed of a diagnosis: a block for each check, the verdict, and what to run next.

    Args:
        found: the diagnosis
        run: the run folder to name in what should be run next
    """
    from rich.console import Group
    from rich.padding import Padding
    from rich.text import Text

    title = f"\n{found.model} on {found.examples} images of {found.data}, {found.threat}"
    lines: list[Text | Padding] = [Text(title), Text()]
    for one in found.evidence:
        lines.append(Text.assemble((f"{one.finding:<11}", STYLES[one.finding]), (one.title, "bold")))
        lines.append(Padding(Text(one.sentence), (0, 0, 0, 11)))
        if one.finding != "sound":
            lines.append(Padding(Text(f"rule: {one.rule}", style="dim"), (0, 0, 0, 11)))
    verdict = found.verdict
    is_partial = verdict == "sound" and not all(one.was_made for one in found.evidence)
    meaning = found.summary if is_partial else MEANING[verdict]
    lines += [Text(), Text.assemble("verdict: ", (verdict, STYLES[verdict]), f" - {meaning}")]
    if not found.is_whole:
        lines.append(Text("this is a first look; soar diagnose makes all checks"))
    lines += [Text(f"next: {advice.replace('RUN', run, 1)}") for advice in found.advice]
    return Group(*lines)


def _caption(assessment: Assessment) -> str:
    caption = "forward and backward: passes an image"
    if any(result.survivors_only for result in assessment.attacks):
        caption += "\n* on what earlier attacks have left; the accuracy is what is left then"
    return caption


def _title(assessment: Assessment) -> str:
    return f"{assessment.model} on {len(assessment)} images of {assessment.data}, {assessment.threat}"
