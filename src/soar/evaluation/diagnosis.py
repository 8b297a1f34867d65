"""What a diagnosis found: evidence of gradient masking, item by item, and the verdict it adds up to."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from soar import epsilon, values
from soar.errors import printable
from soar.evaluation.files import read_json, write_json
from soar.evaluation.rendering import as_html, as_text
from soar.evaluation.table import verdict_table
from soar.threat import Threat, threat
from soar.weights import Weights

Verdict = Literal["sound", "inconclusive", "suspicious", "masked"]
# A check that could not be made might have found anything, so a model that misses one is not called sound;
# what another check did find against it still counts.
SEVERITY: dict[Verdict, int] = {"sound": 0, "inconclusive": 1, "suspicious": 2, "masked": 3}
KIND = "diagnosis"
FORMAT = 2


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What one check measured and what follows from it.

    Args:
        check: the check's name, such as "losses"
        title: what was compared, for a heading
        finding: what this item alone says of the model; "inconclusive" if the check could not be made
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
    def was_made(self) -> bool:
        """Whether something could be measured at all."""
        return self.finding != "inconclusive"


@dataclass(frozen=True, kw_only=True)
class Diagnosis:
    """Evidence on one model, the strongest first."""

    model: str
    data: str
    threat: Threat
    examples: int
    seed: int = 0
    evidence: tuple[Evidence, ...]
    is_whole: bool = True
    """whether all checks were made, or only those that cost next to nothing"""
    environment: dict[str, Any] = field(default_factory=dict)
    weights: Weights | None = None
    """the file that the model's weights were read from; None if that is not known"""

    def __post_init__(self) -> None:
        object.__setattr__(self, "evidence", strongest_first(self.evidence))

    def __repr__(self) -> str:
        about = f"{self.model} on {self.examples} images of {self.data}, {self.threat}"
        return printable(f"<Diagnosis: {about}: {self.verdict}>")

    def __str__(self) -> str:
        return as_text(verdict_table(self))

    def _repr_html_(self) -> str:
        """Return the verdict and its evidence for a notebook."""
        return as_html(verdict_table(self))

    @property
    def verdict(self) -> Verdict:
        """The gravest finding: sound only if every check was made and none speaks against the model."""
        findings: list[Verdict] = [one.finding for one in self.evidence]
        return max(findings, key=SEVERITY.__getitem__, default="inconclusive")

    @property
    def against(self) -> tuple[Evidence, ...]:
        """The items that speak against the model, the strongest first."""
        return tuple(one for one in self.evidence if one.finding in ("suspicious", "masked"))

    @property
    def summary(self) -> str:
        """The strongest evidence against the model in a sentence, or that there is none."""
        if self.against:
            return self.against[0].sentence
        checks, made = len(self.evidence), sum(one.was_made for one in self.evidence)
        if not made:
            return "No check could be made, so nothing is known."
        if made < checks:
            return f"{checks - made} of {checks} checks could not be made, so it cannot be called sound."
        return f"None of {made} checks speaks against it."

    @property
    def advice(self) -> tuple[str, ...]:
        """What to run next, the most urgent first."""
        return tuple(dict.fromkeys(one.advice for one in self.evidence if one.advice))

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain values, as it is stored."""
        return {
            "format": FORMAT,
            "kind": KIND,
            "model": self.model,
            "weights": None if self.weights is None else self.weights.as_dict(),
            "data": self.data,
            "threat": {"norm": self.threat.norm_name, "eps": epsilon.show(self.threat.eps)},
            "examples": self.examples,
            "seed": self.seed,
            "verdict": self.verdict,
            "is_whole": self.is_whole,
            "evidence": [asdict(one) for one in self.evidence],
            "environment": self.environment,
        }

    @staticmethod
    def from_dict(stored: dict[str, Any]) -> Diagnosis:
        """Take what `as_dict` gave."""
        return Diagnosis(
            model=stored["model"],
            data=stored["data"],
            threat=threat(stored["threat"]["norm"], stored["threat"]["eps"]),
            examples=stored["examples"],
            seed=stored["seed"],
            evidence=tuple(Evidence(**one) for one in stored["evidence"]),
            is_whole=stored["is_whole"],
            environment=stored["environment"],
            weights=None if stored["weights"] is None else Weights.from_dict(stored["weights"]),
        )

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


def strongest_first(evidence: Iterable[Evidence]) -> tuple[Evidence, ...]:
    """Order evidence by how grave it is, and among equals by how far it lies beyond the rule."""
    return tuple(sorted(evidence, key=lambda one: (-SEVERITY[one.finding], -one.excess)))
