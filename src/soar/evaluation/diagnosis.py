"""What a diagnosis found: the result of every check for gradient masking, and the verdict they add up to."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from torch import Tensor

from soar import values
from soar.errors import printable
from soar.evaluation.files import plain_fields, read_json, write_json
from soar.evaluation.interval import paired
from soar.evaluation.shapes import Verdict as Verdict
from soar.evaluation.table import as_html, as_text, verdict_table
from soar.threat import Threat, threat
from soar.weights import Weights

# A check that could not be run might have found anything, so a model that misses one is not called sound;
# what another check did find against it still counts.
SEVERITY: dict[Verdict, int] = {"sound": 0, "inconclusive": 1, "suspicious": 2, "masked": 3}
KIND = "diagnosis"
FORMAT = 3


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
        advice: what to run next, where the finding calls for it
    """

    check: str
    title: str
    finding: Verdict
    sentence: str
    rule: str
    numbers: dict[str, float | int | str | None] = field(default_factory=dict)
    excess: float = 0.0
    advice: str = ""

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
        advice: str = "soar evaluate RUN --attacks standard",
        rule: str = "",
    ) -> CheckResult:
        """Return the result of this check.

        Args:
            judgment: what follows from the numbers
            sentence: the same in plain words
            numbers: everything that was measured, by name
            advice: what to run next, unless the finding is "sound"
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
            advice="" if judgment.finding == "sound" else advice,
        )

    def skipped(self, why: str) -> CheckResult:
        """Return the result of this check where it could not be run."""
        return self.result(Judgment("inconclusive", 0.0), f"Could not be checked: {why}.", {}, advice="")


@dataclass(frozen=True)
class Judgment:
    """A finding, and how far beyond its threshold the number lies."""

    finding: Verdict
    excess: float

    @property
    def severity(self) -> tuple[int, float]:
        """What the most severe of several judgments is found by."""
        return SEVERITY[self.finding], self.excess


@dataclass(frozen=True, kw_only=True)
class Thresholds:
    """From where on a share of the examples counts against a model.

    A share counts only if it reaches a threshold and the lower end of its 95% interval reaches half of it,
    so that a handful of examples raises no alarm.

    Args:
        suspicious: from here on the finding is suspicious
        masked: from here on it is masked; without it the finding is never worse than suspicious

    >>> limits = Thresholds(suspicious=0.06, masked=0.12)
    >>> limits.judge(0.36, 0.30), limits.judge(0.09, 0.04), limits.judge(0.09, 0.01).finding
    (Judgment(finding='masked', excess=3.0), Judgment(finding='suspicious', excess=1.33), 'sound')
    """

    suspicious: float
    masked: float = math.inf

    def judge(self, share: float, low: float) -> Judgment:
        """Return what a share means.

        Args:
            share: the share of examples that counts against the model
            low: the lower end of its interval
        """
        limits: dict[Verdict, float] = {"masked": self.masked, "suspicious": self.suspicious}
        for finding, limit in limits.items():
            excess = min(share / limit, low / (limit / 2))
            if excess >= 1:
                return Judgment(finding, round(excess, 2))
        return Judgment("sound", round(max(0.0, excess), 2))

    def compare(self, before: Tensor, after: Tensor) -> tuple[Judgment, dict[str, float | int | str | None]]:
        """Compare what one attack leaves with what another leaves of the same examples.

        Where the other leaves less than half, the first was wrong about most of what it left, and the
        threshold of suspicion is enough to call the model masked.

        Args:
            before: which examples are robust under the attack that may be misled
            after: which are robust under the attack that is not misled in that way

        Returns:
            What follows, and the difference with its interval for the record.
        """
        difference, low, high = paired(before, after)
        limits = self
        if not math.isinf(self.masked) and int(after.sum()) < int(before.sum()) / 2:
            limits = replace(self, masked=self.suspicious)
        return limits.judge(difference, low), {"difference": difference, "low": low, "high": high}

    @property
    def rule(self) -> str:
        """The thresholds in words.

        >>> Thresholds(suspicious=0.06, masked=0.12).rule
        'from 6 points on suspicious, from 12 points on masked, if the 95% interval begins at half of that'
        """
        masked = "" if math.isinf(self.masked) else f", from {100 * self.masked:g} points on masked"
        return (
            f"from {100 * self.suspicious:g} points on suspicious{masked},"
            " if the 95% interval begins at half of that"
        )


@dataclass(frozen=True, kw_only=True)
class Diagnosis:
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

    def __str__(self) -> str:
        return as_text(verdict_table(self))

    def _repr_html_(self) -> str:
        """Return the verdict and the checks for a notebook."""
        return as_html(verdict_table(self))

    @property
    def verdict(self) -> Verdict:
        """The most severe finding: sound only if every check was run and none counts against the model."""
        return self.checks[0].finding if self.checks else "inconclusive"

    @property
    def against(self) -> tuple[CheckResult, ...]:
        """The checks that count against the model, the most severe first."""
        return tuple(one for one in self.checks if one.finding in ("suspicious", "masked"))

    @property
    def summary(self) -> str:
        """The most severe finding against the model in a sentence, or that there is none."""
        if self.against:
            return self.against[0].sentence
        count, run = len(self.checks), sum(one.was_run for one in self.checks)
        if not run:
            return "No check could be made, so nothing is known."
        if run < count:
            return f"{count - run} of {count} checks could not be made, so it cannot be called sound."
        return f"None of {run} checks speaks against it."

    @property
    def advice(self) -> tuple[str, ...]:
        """What to run next, the most urgent first."""
        return tuple(dict.fromkeys(one.advice for one in self.checks if one.advice))

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain values, as it is stored."""
        return {"format": FORMAT, "kind": KIND, "verdict": self.verdict, **plain_fields(self)}

    @staticmethod
    def from_dict(stored: dict[str, Any]) -> Diagnosis:
        """Restore what `as_dict` returned."""
        kept = {name: value for name, value in stored.items() if name not in ("format", "kind", "verdict")}
        restored = {
            "threat": threat(**stored["threat"]),
            "checks": tuple(CheckResult(**one) for one in stored["checks"]),
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
