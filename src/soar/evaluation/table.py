"""Assessments, certificates and diagnoses as tables: for the terminal, as plain text and as HTML."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING

from soar.errors import printable
from soar.text import interval, percent

if TYPE_CHECKING:
    from rich.console import Console, Group, RenderableType
    from rich.table import Table
    from rich.text import Text

    from soar.evaluation.assessment import Assessment
    from soar.evaluation.bracket import Bracket
    from soar.evaluation.certificate import Certificate
    from soar.evaluation.diagnosis import Diagnosis, Verdict

WORST = "worst case"
"""what the accuracy under all attacks is called"""
STYLES: dict[Verdict, str] = {
    "sound": "bold green",
    "inconclusive": "bold blue",
    "suspicious": "bold yellow",
    "masked": "bold red",
}
MEANING: dict[Verdict, str] = {
    "sound": "no check counts against it; attacks were not misled",
    "inconclusive": "checks could not be made; what they would have found is not known",
    "suspicious": "some attacks may have been misled; do not quote its robust accuracy before the next steps",
    "masked": "attacks were misled by hidden gradients; its robust accuracy under them means nothing",
}
_PROVED = "certified: no perturbation within the threat changes the prediction; no attack leaves less"
_SMOOTHED = "certified: the smoothed model, not the model itself, keeps its prediction within the threat"

# Room for the longest verdict.
_INDENT = 13
# Wide enough for every column of a table; a fixed width gives the same text on every machine.
_WIDTH = 110
_PRE = '<pre style="white-space:pre;overflow-x:auto;line-height:normal">{code}</pre>'


def table(assessment: Assessment, certificate: Certificate | None = None) -> Table:
    """Return a table of one assessment: clean, each attack, worst case, with intervals and passes.

    Args:
        assessment: what attacks found
        certificate: what is certified for the same model and threat, for the row below
    """
    from rich import box
    from rich.table import Table
    from rich.text import Text

    title = f"{assessment.model} on {len(assessment)} images of {assessment.data}, {assessment.threat}"
    caption = "forward and backward: passes per image"
    cumulative = {result.label for result in assessment.attacks if result.survivors_only}
    if cumulative:
        caption += "\n* on what earlier attacks have left; the accuracy is what is left then"
    if certificate is not None:
        caption += f"\ncertified: on {len(certificate)} images, no perturbation changes the prediction"
    if assessment.protocol:
        caption += f"\n{assessment.protocol}"
    made = Table(
        box=box.SIMPLE_HEAD,
        title=_as_it_is(title, "table.title"),
        title_justify="left",
        caption=Text(caption, "table.caption"),
        caption_justify="left",
    )
    made.add_column("attack")
    for heading in ("accuracy", "95% interval", "forward", "backward", "seconds"):
        made.add_column(heading, justify="right")
    seconds = {result.label: result.seconds for result in assessment.attacks}
    for name in assessment.names:
        forward, backward = assessment.passes(name)
        time = sum(seconds.values()) if name == WORST else seconds.get(name)
        made.add_row(
            _as_it_is(f"{name} *" if name in cumulative else name),
            percent(assessment.accuracy(name)),
            interval(*assessment.interval(name)),
            f"{forward:.1f}",
            f"{backward:.1f}",
            "" if time is None else f"{time:.1f}",
            style="bold" if name == WORST else "",
        )
    if certificate is not None:
        certified = percent(certificate.accuracy), interval(*certificate.interval)
        made.add_row(f"certified, {certificate.method}", *certified, "", "", f"{certificate.seconds:.1f}")
    return made


def curve(assessments: Sequence[Assessment], certificates: Sequence[Certificate] = ()) -> Table:
    """Return a table of robust accuracy over the radius, of assessments of one model on the same images.

    Args:
        assessments: each at another radius
        certificates: what is certified at some of these radii
    """
    from rich import box
    from rich.table import Table

    made = Table(box=box.SIMPLE_HEAD, title="Robust accuracy over the radius", title_justify="left")
    made.add_column("threat")
    for heading in ("accuracy", "95% interval", "forward", "backward"):
        made.add_column(heading, justify="right")
    first = assessments[0]
    if certificates:
        made.add_column("certified", justify="right")
    made.add_row("none", percent(first.accuracy("clean")), interval(*first.interval("clean")), "1.0", "0.0")
    certified = {one.threat: percent(one.accuracy) for one in certificates}
    for one in sorted(assessments, key=lambda one: one.threat.eps):
        forward, backward = one.passes(WORST)
        accuracy = percent(one.worst_case), interval(*one.interval(WORST))
        proved = [certified.get(one.threat, "")] if certificates else []
        made.add_row(str(one.threat), *accuracy, f"{forward - 1:.1f}", f"{backward:.1f}", *proved)
    return made


def certificate_table(certificates: Sequence[Certificate], brackets: Sequence[Bracket] = ()) -> Table:
    """Return a table of certified accuracy over the radius, beside accuracy under attack where it is known.

    Args:
        certificates: of one model on the same images, each at another radius
        brackets: what attacks have left at some of these radii
    """
    from rich import box
    from rich.table import Table
    from rich.text import Text

    first = certificates[0]
    attacked = {str(one.threat): _attacked(one, len(first)) for one in brackets}
    caption = f"{_SMOOTHED if first.is_smoothed else _PROVED}\nclean accuracy {percent(first.clean_accuracy)}"
    if attacked:
        caption += "; attacked: what all attacks on record have left, no more than this is robust"
    title = f"{first.model} on {len(first)} images of {first.data}, {first.method}"
    made = Table(
        box=box.SIMPLE_HEAD,
        title=_as_it_is(title, "table.title"),
        title_justify="left",
        caption=Text(caption, "table.caption"),
        caption_justify="left",
    )
    made.add_column("threat")
    for heading in (
        "certified",
        "95% interval",
        *(["attacked"] if attacked else []),
        "seconds",
        "CPU seconds",
    ):
        made.add_column(heading, justify="right")
    for one in sorted(certificates, key=lambda one: one.threat.eps):
        made.add_row(
            str(one.threat),
            percent(one.accuracy),
            interval(*one.interval),
            *([attacked.get(str(one.threat), "")] if attacked else []),
            f"{one.seconds:.1f}",
            f"{one.cpu_seconds:.1f}",
        )
    return made


def _attacked(found: Bracket, examples: int) -> str:
    """Return what attacks have left, and on how many images where it is not on all of them."""
    on = "" if found.examples == examples else f" of {found.examples}"
    return f"{percent(found.attacked)}{on}"


def protocol(assessment: Assessment) -> list[str]:
    """Return a line for every attack with all its numbers and the examples it was run on."""
    lines = []
    for result in assessment.attacks:
        numbers = ", ".join(f"{name} {value}" for name, value in result.parameters.items())
        on = "survivors" if result.survivors_only else "all correctly classified"
        mean = f", mean of {result.samples} outputs" if result.samples > 1 else ""
        lines.append(f"{result.label}: {numbers or 'no options'}; on {on}{mean}")
    return lines


def verdict_table(found: Diagnosis, target: str = "", sources: Sequence[str] = ()) -> Group:
    """Return what is printed: one block for each check, the most severe finding first.

    Args:
        found: the diagnosis
        target: the run folder or the flags that name the model, for commands to run next; without it, what to
            do next is worded for Python
        sources: other run folders, from which attacks may be transferred
    """
    from rich.console import Group
    from rich.padding import Padding
    from rich.text import Text

    def indented(text: Text) -> Padding:
        return Padding(text, (0, 0, 0, _INDENT))

    title = f"{found.model} on {found.examples} images of {found.data}, {found.threat}"
    lines: list[Text | Padding] = [Text(), _as_it_is(title), Text()]
    for one in found.checks:
        lines.append(
            Text(f"{one.finding:<{_INDENT}}", style=STYLES[one.finding]) + _as_it_is(one.title, "bold")
        )
        lines.append(indented(_as_it_is(one.sentence)))
        if one in found.against:
            lines.append(indented(_as_it_is(f"rule: {one.rule}", "dim")))
    verdict = found.verdict
    word = Text(verdict, style=STYLES[verdict])
    lines += [Text(), Text("verdict: ") + word + Text(f" - {MEANING[verdict]}")]
    if found.is_at_threshold:
        lines.append(Text("at the threshold: more images would decide"))
    if not found.is_complete:
        lines.append(Text("this is a first look; soar diagnose runs all checks"))
    following = found.commands(target, sources) if target else found.advice
    lines += [_as_it_is(f"next: {advice}") for advice in following]
    return Group(*lines)


def as_text(renderable: RenderableType) -> str:
    """Return a table as plain text without colors."""
    return "\n".join(line.rstrip() for line in _recorded(renderable).export_text().splitlines()).strip("\n")


def as_html(renderable: RenderableType) -> str:
    """Return a table as a piece of HTML that needs no style sheet, script or font."""
    return _recorded(renderable).export_html(inline_styles=True, code_format=_PRE)


def _recorded(renderable: RenderableType) -> Console:
    from rich.console import Console

    # Inside a notebook a console would otherwise show what it prints, besides recording it.
    console = Console(file=io.StringIO(), record=True, width=_WIDTH, force_jupyter=False, color_system=None)
    console.print(renderable)
    return console


def _as_it_is(text: str, style: str = "") -> Text:
    """Return a text that may hold anyone's names: no brackets are markup, no character moves the cursor."""
    from rich.text import Text

    return Text(printable(text), style=style)
