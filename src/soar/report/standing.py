"""How far a run's numbers can be trusted, in a word, a sign and a sentence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from soar.evaluation.verdict_table import MEANING
from soar.report.content import RunContent

Kind = Literal["sound", "inconclusive", "suspicious", "masked", "unknown"]
SIGNS: dict[Kind, str] = {"sound": "✓", "inconclusive": "~", "suspicious": "!", "masked": "✗", "unknown": "?"}
DISTRUST = f"Not to be trusted: {MEANING['masked']}."


@dataclass(frozen=True)
class Standing:
    """What the diagnosis of a run amounts to."""

    kind: Kind
    word: str
    """the verdict as a reader should meet it"""
    reason: str
    """the strongest evidence, or how to get some"""

    @property
    def sign(self) -> str:
        """A sign beside the word, so that the colour is not alone."""
        return SIGNS[self.kind]

    @property
    def is_masked(self) -> bool:
        """Whether the robust accuracy means nothing."""
        return self.kind == "masked"


def standing(run: RunContent) -> Standing:
    """Sum up the diagnosis of a run."""
    found = run.diagnosis
    if found is None:
        return Standing(
            "unknown", "not diagnosed", "Run soar diagnose on its folder to look for gradient masking."
        )
    if found.is_whole:
        return Standing(found.verdict, found.verdict, found.summary)
    more = "Only the cheap checks were made: run soar diagnose on its folder for all of them."
    return Standing(found.verdict, f"{found.verdict}, at first look", f"{found.summary} {more}")
