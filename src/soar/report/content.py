"""Everything that a report shows of a run, as plain values: collected by `gather`, drawn by `page`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from soar.evaluation import Assessment, Bracket, Certificate
from soar.evaluation.corruptions import Corruptions
from soar.evaluation.diagnosis import Diagnosis
from soar.report.drawing.lines import ChartLine
from soar.report.drawing.surfaces import Surface
from soar.report.markup import Kind
from soar.report.sections.classes import ClassOutcome
from soar.report.sections.gallery import GalleryImage


@dataclass(frozen=True)
class VerdictText:
    """The verdict on gradient masking as the page shows it."""

    kind: Kind
    text: str
    reason: str
    """the strongest evidence, or how to get some"""

    @property
    def is_masked(self) -> bool:
        """Whether the robust accuracy means nothing."""
        return self.kind == "masked"


@dataclass(frozen=True, kw_only=True)
class RunContent:
    """Everything that a report shows of one run."""

    name: str
    folder: str
    """the run folder, as a command takes it"""
    classes: tuple[str, ...]
    assessment: Assessment
    diagnosis: Diagnosis | None
    accuracy_by_eps: tuple[ChartLine, ...]
    """accuracy from 0 to 1 against eps as a number, the worst case last"""
    curve_examples: int
    """how many examples the curves were measured on"""
    training: tuple[ChartLine, ...]
    """against the epoch; labels: loss, penalty, clean, robust, lr, and whatever else was logged"""
    trained_seconds: float | None = None
    """duration of the training over all its sessions, if it is known"""
    guards: tuple[str, ...]
    """guards that fired, one line each"""
    gallery: tuple[GalleryImage, ...]
    """empty, as are the surfaces, if no image is correctly classified"""
    surfaces: tuple[Surface, ...]
    class_outcomes: tuple[ClassOutcome, ...]
    recipe: str
    """the resolved recipe, TOML"""
    commands: tuple[str, ...]
    """the commands that repeat it"""
    environment: dict[str, Any]
    certificates: tuple[Certificate, ...] = ()
    """of the model itself, on images of the assessment, the smallest radius first"""
    bracket: Bracket | None = None
    """what the robust accuracy lies between at the threat's eps, where that is certified"""
    corruptions: Corruptions | None = None
    """accuracy under common corruptions, where it was measured"""
    bracket_by_eps: tuple[ChartLine, ...] = ()
    """accuracy under attack and certified accuracy on the same images; empty without certificates"""
    bracket_examples: int = 0
    """how many examples these two were measured on"""

    @property
    def verdict(self) -> VerdictText:
        """The verdict of the diagnosis, or that there is none."""
        found = self.diagnosis
        if found is None:
            reason = "Run soar diagnose on its folder to look for gradient masking."
            return VerdictText("unknown", "not diagnosed", reason)
        if found.is_complete:
            return VerdictText(found.verdict, found.verdict, found.summary)
        more = "Only the cheap checks were made: run soar diagnose on its folder for all of them."
        return VerdictText(found.verdict, f"{found.verdict}, at first look", f"{found.summary} {more}")

    @property
    def legend(self) -> str:
        """The name in legends, with a warning where the run is masked."""
        return f"{self.name} (masked)" if self.verdict.is_masked else self.name
