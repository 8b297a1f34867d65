"""A diagnosis for the terminal: the verdict, the evidence behind it, and what to run next."""

from __future__ import annotations

from typing import TYPE_CHECKING

from soar.errors import printable
from soar.evaluation.diagnosis import Diagnosis, Verdict

if TYPE_CHECKING:
    from rich.console import Group

STYLES: dict[Verdict, str] = {
    "sound": "bold green",
    "inconclusive": "bold blue",
    "suspicious": "bold yellow",
    "masked": "bold red",
}
MEANING: dict[Verdict, str] = {
    "sound": "nothing speaks against it; what attacks found is what there is to find",
    "inconclusive": "checks could not be made; what they would have found is not known",
    "suspicious": "some attacks may have been misled; do not quote its robust accuracy before the next steps",
    "masked": "attacks were misled by hidden gradients; its robust accuracy under them means nothing",
}

# Room for the longest verdict.
_INDENT = 13


def verdict_table(found: Diagnosis, run: str = "RUN") -> Group:
    """Make what is printed: one block for each check, the gravest first.

    Args:
        found: the diagnosis
        run: the run folder to name in what should be run next
    """
    from rich.console import Group
    from rich.padding import Padding
    from rich.text import Text

    def line(text: str, style: str = "") -> Text:
        return Text(printable(text), style=style)

    def indented(text: Text) -> Padding:
        return Padding(text, (0, 0, 0, _INDENT))

    title = f"{found.model} on {found.examples} images of {found.data}, {found.threat}"
    lines: list[Text | Padding] = [Text(), line(title), Text()]
    for one in found.evidence:
        lines.append(Text(f"{one.finding:<{_INDENT}}", style=STYLES[one.finding]) + line(one.title, "bold"))
        lines.append(indented(line(one.sentence)))
        if one in found.against:
            lines.append(indented(line(f"rule: {one.rule}", "dim")))
    verdict = found.verdict
    word = Text(verdict, style=STYLES[verdict])
    lines += [Text(), Text("verdict: ") + word + Text(f" - {MEANING[verdict]}")]
    if not found.is_whole:
        lines.append(Text("this is a first look; soar diagnose makes all checks"))
    lines += [line(f"next: {advice.replace('RUN', run, 1)}") for advice in found.advice]
    return Group(*lines)
