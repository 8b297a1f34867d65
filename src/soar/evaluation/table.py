"""Results as tables: assessments, attacked batches, certificates, comparisons and diagnoses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from soar.errors import printable
from soar.text import interval, percent, points

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    from soar.evaluation.assessment import Assessment
    from soar.evaluation.attack import AdversarialExamples
    from soar.evaluation.bracket import Bracket
    from soar.evaluation.certificate import Certificate
    from soar.evaluation.compare import Comparison
    from soar.evaluation.diagnosis import Diagnosis, Verdict

CLEAN = "clean"
"""what the accuracy without an attack is called"""
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

_PASSES = "forward and backward: passes per image"
# Room for the longest verdict.
_INDENT = 13


def table(assessment: Assessment, certificate: Certificate | None = None) -> Table:
    """Return a table of one assessment: clean, each attack, worst case, with intervals and passes.

    Args:
        assessment: what attacks found
        certificate: what is certified for the same model and threat, for the row below
    """
    title = f"{assessment.model} on {len(assessment)} images of {assessment.data}, {assessment.threat}"
    caption = [_PASSES]
    cumulative = {result.label for result in assessment.attacks if result.survivors_only}
    if cumulative:
        caption.append("* on what earlier attacks have left; the accuracy is what is left then")
    if certificate is not None:
        caption.append(f"certified: on {len(certificate)} images, no perturbation changes the prediction")
    if assessment.protocol:
        caption.append(assessment.protocol)
    made = _begun(title, caption, "attack", "accuracy", "95% interval", "forward", "backward", "seconds")
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


def attack_table(found: AdversarialExamples) -> Table:
    """Return a table of an attacked batch: clean and worst case, with intervals and passes."""
    title = f"{len(found)} images, {found.threat}, {' and '.join(found.attacks)}"
    made = _begun(title, [_PASSES], "attack", "accuracy", "95% interval", "forward", "backward")
    for name in found.names:
        shares = percent(found.accuracy(name)), interval(*found.interval(name))
        passes = [f"{count:.1f}" for count in found.passes(name)]
        made.add_row(name, *shares, *passes, style="bold" if name == WORST else "")
    return made


def curve(
    results: Sequence[Assessment] | Sequence[AdversarialExamples], certificates: Sequence[Certificate] = ()
) -> Table:
    """Return a table of robust accuracy over the radius, of results of one model on the same images.

    Args:
        results: each at another radius
        certificates: what is certified at some of these radii
    """
    headings = ("threat", "accuracy", "95% interval", "forward", "backward")
    made = _begun("Robust accuracy over the radius", (), *headings, *(["certified"] if certificates else []))
    first = results[0]
    made.add_row("none", percent(first.accuracy(CLEAN)), interval(*first.interval(CLEAN)), "1.0", "0.0")
    certified = {one.threat: percent(one.accuracy) for one in certificates}
    rows: list[Assessment | AdversarialExamples] = [*results]
    for one in sorted(rows, key=lambda one: one.threat.eps):
        forward, backward = one.passes(WORST)
        accuracy = percent(one.accuracy(WORST)), interval(*one.interval(WORST))
        proved = [certified.get(one.threat, "")] if certificates else []
        made.add_row(str(one.threat), *accuracy, f"{forward - 1:.1f}", f"{backward:.1f}", *proved)
    return made


def comparison_table(found: Comparison) -> Table:
    """Return a table of two models on the same images: each attack, worst case last, with the difference."""
    title = f"{found.first} minus {found.second} on {found.examples} images of {found.data}, {found.threat}"
    left_out = [f"{found.left_out} images"] if found.left_out else []
    left_out += found.attacks_left_out
    caption = [f"left out, because only one of them has it: {', '.join(left_out)}"] if left_out else ()
    made = _begun(title, caption, "attack", "first", "second", "difference", "95% interval")
    for row in found.rows:
        style = "bold" if row.name == WORST else ""
        shares = percent(row.first), percent(row.second), points(row.difference)
        made.add_row(_as_it_is(row.name), *shares, interval(row.low, row.high), style=style)
    return made


def certificate_table(certificates: Sequence[Certificate], brackets: Sequence[Bracket] = ()) -> Table:
    """Return a table of certified accuracy over the radius, beside accuracy under attack where it is known.

    Args:
        certificates: of one model on the same images, each at another radius
        brackets: what attacks have left at some of these radii
    """
    first = certificates[0]
    attacked = {str(one.threat): _attacked(one, len(first)) for one in brackets}
    clean = f"clean accuracy {percent(first.clean_accuracy)}"
    if attacked:
        clean += "; attacked: what all attacks on record have left, no more than this is robust"
    caption = (_SMOOTHED if first.is_smoothed else _PROVED, clean)
    title = f"{first.model} on {len(first)} images of {first.data}, {first.method}"
    beside = ["attacked"] if attacked else []
    made = _begun(title, caption, "threat", "certified", "95% interval", *beside, "seconds", "CPU seconds")
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


def _begun(title: str, caption: Sequence[str], first: str, *others: str) -> Table:
    """Return a table without rows, with lines below; the first column is text, the others are numbers."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    made = Table(
        box=box.SIMPLE_HEAD,
        title=_as_it_is(title, "table.title"),
        title_justify="left",
        caption=Text("\n".join(map(printable, caption)), "table.caption") if caption else None,
        caption_justify="left",
    )
    made.add_column(first)
    for heading in others:
        made.add_column(heading, justify="right")
    return made


def _as_it_is(text: str, style: str = "") -> Text:
    """Return a text that may hold anyone's names: no brackets are markup, no character moves the cursor."""
    from rich.text import Text

    return Text(printable(text), style=style)
