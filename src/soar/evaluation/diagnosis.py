"""What a diagnosis found: the result of every check for gradient masking, and the verdict they add up to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from soar import values
from soar.errors import printable
from soar.evaluation.advice import as_command, as_python
from soar.evaluation.files import plain_fields, read_json, write_json
from soar.evaluation.rendering import Rendered
from soar.evaluation.shapes import AdviceKind as AdviceKind
from soar.evaluation.table import verdict_table
from soar.evaluation.thresholds import SEVERITY as SEVERITY
from soar.evaluation.thresholds import Judgment as Judgment
from soar.evaluation.thresholds import Thresholds as Thresholds
from soar.evaluation.thresholds import Verdict as Verdict
from soar.evaluation.thresholds import severity as severity
from soar.threat import Threat, threat
from soar.weights import Weights

if TYPE_CHECKING:
    from rich.console import Group

KIND = "diagnosis"
FORMAT = 4
LOST_IN = "lost in module"
"""what the module without a gradient is called among the numbers of a check"""


@dataclass(frozen=True, kw_only=True)
class CheckResult:
    """What one check measured and what follows from it.

    Args:
        check: the check's name, such as "losses"
        title: what was compared, for a heading
        finding: what this check alone says about the model; "inconclusive" if it could not be run
        sentence: the same in plain words, with the numbers that matter
        rule: the rule that was applied, with its thresholds
        numbers: everything that was measured, by name; shares from 0 to 1
        excess: how far the decisive number lies beyond its threshold, as a ratio; 1 is the threshold
        advice: what to do next, the most likely help first, where the finding calls for it
        alternatives: what other images may show, where the interval of the decisive number holds a threshold
    """

    check: str
    title: str
    finding: Verdict
    sentence: str
    rule: str
    numbers: dict[str, float | int | str | None] = field(default_factory=dict)
    excess: float = 0.0
    advice: tuple[AdviceKind, ...] = ()
    alternatives: tuple[Verdict, ...] = ()

    @property
    def was_run(self) -> bool:
        """Whether something could be measured at all."""
        return self.finding != "inconclusive"


@dataclass(frozen=True)
class Check:
    """A check for gradient masking.

    Args:
        name: such as "losses"
        title: what is compared, for a heading
        rule: from where on the numbers count against a model
    """

    name: str
    title: str
    rule: str

    def result(
        self,
        judgment: Judgment,
        sentence: str,
        numbers: dict[str, float | int | str | None],
        *,
        advice: Sequence[AdviceKind] = ("autoattack",),
        rule: str = "",
    ) -> CheckResult:
        """Return the result of this check.

        Args:
            judgment: what follows from the numbers
            sentence: the same in plain words
            numbers: everything that was measured, by name
            advice: what to do next, the most likely help first, unless the finding is "sound"
            rule: the rule that was applied, where it is not the check's own
        """
        return CheckResult(
            check=self.name,
            title=self.title,
            finding=judgment.finding,
            sentence=sentence,
            rule=rule or self.rule,
            numbers=numbers,
            excess=judgment.excess,
            advice=() if judgment.finding == "sound" else tuple(advice),
            alternatives=judgment.alternatives,
        )

    def skipped(self, why: str) -> CheckResult:
        """Return the result of this check where it could not be run."""
        return self.result(Judgment("inconclusive", 0.0), f"Could not be checked: {why}.", {}, advice=())


@dataclass(frozen=True, kw_only=True)
class Diagnosis(Rendered):
    """The checks of one model, the most severe finding first."""

    model: str
    data: str
    threat: Threat
    examples: int
    seed: int = 0
    checks: tuple[CheckResult, ...]
    is_complete: bool = True
    """whether all checks were run, or only those that cost next to nothing"""
    environment: dict[str, Any] = field(default_factory=dict)
    weights: Weights | None = None
    """the file that the model's weights were read from; None if that is not known"""

    def __post_init__(self) -> None:
        ordered = sorted(self.checks, key=lambda one: (-SEVERITY[one.finding], -one.excess))
        object.__setattr__(self, "checks", tuple(ordered))

    def __repr__(self) -> str:
        about = f"{self.model} on {self.examples} images of {self.data}, {self.threat}"
        return printable(f"<Diagnosis: {about}: {self.verdict}>")

    def __rich__(self) -> Group:
        return verdict_table(self)

    @property
    def verdict(self) -> Verdict:
        """The most severe finding: sound only if every check was run and none counts against the model."""
        return self.checks[0].finding if self.checks else "inconclusive"

    @property
    def against(self) -> tuple[CheckResult, ...]:
        """The checks that count against the model, the most severe first."""
        return tuple(one for one in self.checks if one.finding in ("suspicious", "masked"))

    @property
    def is_at_threshold(self) -> bool:
        """Whether the verdict on other images of the same kind may well be another one.

        That is so where a number lies at a threshold of its check and the verdict follows from that check.
        """
        verdict = SEVERITY[self.verdict]
        for place, one in enumerate(self.checks):
            rest = [SEVERITY[other.finding] for at, other in enumerate(self.checks) if at != place]
            if any(max(SEVERITY[finding], *rest, 0) != verdict for finding in one.alternatives):
                return True
        return False

    @property
    def summary(self) -> str:
        """The most severe finding against the model in a sentence, or that there is none."""
        close = " It is at the threshold: more images would decide." if self.is_at_threshold else ""
        return self._reason() + close

    def _reason(self) -> str:
        if self.against:
            return self.against[0].sentence
        count, run = len(self.checks), sum(one.was_run for one in self.checks)
        if not run:
            return "No check could be made, so nothing is known."
        if self.verdict == "inconclusive" and self.checks[0].numbers:
            return self.checks[0].sentence
        if run < count:
            return f"{count - run} of {count} checks could not be made, so it cannot be called sound."
        return f"None of {run} checks speaks against it."

    @property
    def kinds(self) -> tuple[AdviceKind, ...]:
        """The kinds of advice of all checks, the most urgent first."""
        return tuple(dict.fromkeys(kind for one in self.checks for kind in one.advice))

    @property
    def module(self) -> str:
        """The module in which the gradient is lost, where a check has found it."""
        return next((str(one.numbers[LOST_IN]) for one in self.checks if one.numbers.get(LOST_IN)), "")

    @property
    def advice(self) -> tuple[str, ...]:
        """What to do next, the most urgent first, in Python."""
        return tuple(as_python(kind, self.module) for kind in self.kinds)

    def commands(self, target: str, sources: Sequence[str] = ()) -> tuple[str, ...]:
        """Return what to do next, the most urgent first, on the command line.

        Args:
            target: the run folder, or the flags that name the model, as the commands take them
            sources: other run folders, from which attacks may be transferred
        """
        return tuple(as_command(kind, target, sources, self.module) for kind in self.kinds)

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain values, as it is stored."""
        return {"format": FORMAT, "kind": KIND, "verdict": self.verdict, **plain_fields(self)}

    @staticmethod
    def from_dict(stored: dict[str, Any]) -> Diagnosis:
        """Restore what `as_dict` returned."""
        checks = [
            CheckResult(**one | {name: tuple(one[name]) for name in ("advice", "alternatives")})
            for one in stored["checks"]
        ]
        kept = {name: value for name, value in stored.items() if name not in ("format", "kind", "verdict")}
        restored = {
            "threat": threat(**stored["threat"]),
            "checks": tuple(checks),
            "weights": stored["weights"] and Weights.from_dict(stored["weights"]),
        }
        return Diagnosis(**kept | restored)

    def save(self, path: Path | str) -> None:
        """Write everything to a JSON file, whole or not at all."""
        write_json(self.as_dict(), values.place(path, "path"))

    @staticmethod
    def load(path: Path | str) -> Diagnosis:
        """Read a diagnosis that was saved.

        Raises:
            UserError: if the file is not one, or of another version of the format
        """
        return read_json(values.place(path, "path"), kind=KIND, version=FORMAT, make=Diagnosis.from_dict)
