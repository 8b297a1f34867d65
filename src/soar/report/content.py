"""What a report shows, as plain values: gathered by `gather`, drawn by `page`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from soar.evaluation import Assessment
from soar.evaluation.diagnosis import Diagnosis
from soar.evaluation.table import MEANING
from soar.report.drawing.data import Curve, Surface

Kind = Literal["sound", "inconclusive", "suspicious", "masked", "unknown"]
SIGNS: dict[Kind, str] = {"sound": "✓", "inconclusive": "~", "suspicious": "!", "masked": "✗", "unknown": "?"}
DISTRUST = f"Not to be trusted: {MEANING['masked']}."


@dataclass(frozen=True, kw_only=True)
class Frame:
    """One position of the slider: what the attack made of an image within a radius."""

    eps: str
    """the radius as people write it, such as 8/255; 0 for the clean image"""
    image: bytes
    """PNG"""
    perturbation: bytes
    """PNG of the change, magnified around gray"""
    probabilities: tuple[float, ...]
    """what the model says, one a class"""


@dataclass(frozen=True, kw_only=True)
class Specimen:
    """One example of the gallery."""

    index: int
    label: int
    magnified: float
    """what changes were multiplied by in the pictures of the perturbation"""
    frames: tuple[Frame, ...]
    """from radius 0 on"""


@dataclass(frozen=True, kw_only=True)
class Broken:
    """What happens to the examples of one class under the worst case of all attacks."""

    label: int
    examples: int
    correct: int
    robust: int
    into: tuple[tuple[int, int], ...]
    """classes that broken examples end in, with their number, the most frequent first"""


@dataclass(frozen=True, kw_only=True)
class RunContent:
    """Everything that a report shows of one run."""

    name: str
    classes: tuple[str, ...]
    assessment: Assessment
    diagnosis: Diagnosis | None
    accuracy_by_eps: tuple[Curve, ...]
    """accuracy from 0 to 1 against the radius, the worst case last; x is eps as a number"""
    curve_examples: int
    """how many examples the curves were measured on"""
    training: tuple[Curve, ...]
    """x is the epoch; labels: loss, penalty, clean, robust, lr, and whatever else was logged"""
    trained_seconds: float | None = None
    """how long the training took, over all its sessions; None where that is not known"""
    guards: tuple[str, ...]
    """guards that fired, a line each"""
    gallery: tuple[Specimen, ...]
    surfaces: tuple[Surface, ...]
    classes_broken: tuple[Broken, ...]
    recipe: str
    """the resolved recipe, TOML"""
    commands: tuple[str, ...]
    """what to type to repeat it"""
    environment: dict[str, Any]


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
        """A sign beside the word, so that the color is not alone."""
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
    if found.is_complete:
        return Standing(found.verdict, found.verdict, found.summary)
    more = "Only the cheap checks were made: run soar diagnose on its folder for all of them."
    return Standing(found.verdict, f"{found.verdict}, at first look", f"{found.summary} {more}")
