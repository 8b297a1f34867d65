"""What an evaluation found: the outcome of every attack on every example, and how it was found."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from soar import epsilon, values
from soar.errors import printable, unknown
from soar.evaluation.attack_result import CLEAN as CLEAN
from soar.evaluation.attack_result import WORST as WORST
from soar.evaluation.attack_result import AttackResult as AttackResult
from soar.evaluation.attack_result import bits, from_bits, whole
from soar.evaluation.diagnosis import Diagnosis, Verdict
from soar.evaluation.files import read_json, write_json
from soar.evaluation.interval import wilson
from soar.evaluation.joining import join
from soar.evaluation.note import Note
from soar.evaluation.rendering import as_html, as_text
from soar.evaluation.table import table
from soar.threat import Threat, threat
from soar.weights import Weights

KIND = "assessment"
FORMAT = 3


@dataclass(frozen=True, eq=False)
class Assessment:
    """Outcomes of attacks on the same examples, with everything needed to repeat them."""

    model: str
    data: str
    threat: Threat
    seed: int
    index: Tensor
    labels: Tensor
    correct: Tensor
    """whether each clean image is correctly classified"""
    attacks: tuple[AttackResult, ...]
    notes: tuple[Note, ...] = ()
    """what is odd about the model's answers"""
    environment: dict[str, Any] = field(default_factory=dict)
    predicted: Tensor | None = None
    """what the model says about each clean image, where that is known"""
    classes: tuple[str, ...] = ()
    """the name of every class, where they are known"""
    diagnosis: Diagnosis | None = None
    """what was found about gradient masking, where it was looked for"""
    weights: Weights | None = None
    """the file that the model's weights were read from; None if that is not known"""

    def __len__(self) -> int:
        return len(self.labels)

    def __repr__(self) -> str:
        about = f"{self.model} on {len(self)} images of {self.data}, {self.threat}"
        found = f"{self.accuracy(CLEAN):.1%} clean, {self.worst_case:.1%} worst case"
        return printable(f"<Assessment: {about}: {found}>")

    def __str__(self) -> str:
        return as_text(table(self))

    def _repr_html_(self) -> str:
        """Return the table for a notebook."""
        return as_html(table(self))

    @property
    def names(self) -> list[str]:
        """Everything that `accuracy` knows: clean, every attack, worst case."""
        return [CLEAN, *(result.label for result in self.attacks), WORST]

    @property
    def verdict(self) -> Verdict | None:
        """Whether gradients are masked, where that was looked for."""
        return None if self.diagnosis is None else self.diagnosis.verdict

    def survivors(self, name: str) -> Tensor:
        """Return which examples are correctly classified under an attack, cleanly, or under all attacks."""
        if name == CLEAN:
            return self.correct
        if name == WORST:
            return torch.stack([self.correct, *(result.robust for result in self.attacks)]).all(dim=0)
        return self._result(name).robust

    def said(self, name: str) -> Tensor | None:
        """Return the class that each example ends in; under all attacks, where the first success took it.

        Args:
            name: an attack's label, "clean" or "worst case"

        Returns:
            One class an example; None where that is not known.
        """
        if name not in (CLEAN, WORST):
            return self._result(name).said
        ends = self.predicted
        for result in self.attacks if name == WORST else ():
            if ends is None or result.said is None:
                return None
            ends = torch.where(ends == self.labels, result.said, ends)
        return ends

    def accuracy(self, name: str) -> float:
        """Return the share of all examples that are correctly classified under an attack.

        Args:
            name: an attack's label, "clean" or "worst case"
        """
        return int(self.survivors(name).sum()) / max(1, len(self))

    def interval(self, name: str) -> tuple[float, float]:
        """Return the 95% interval of an accuracy."""
        return wilson(int(self.survivors(name).sum()), len(self))

    @property
    def worst_case(self) -> float:
        """The share of examples that no attack broke."""
        return self.accuracy(WORST)

    def passes(self, name: str) -> tuple[float, float]:
        """Return the mean number of predictions and gradients an example, the clean one included once."""
        if name == CLEAN:
            return 1.0, 0.0
        wanted = [result for result in self.attacks if name in (WORST, result.label)]
        count = max(1, len(self))
        forward = sum(int(result.forward.sum()) for result in wanted) / count
        backward = sum(int(result.backward.sum()) for result in wanted) / count
        return forward + (1.0 if name == WORST else 0.0), backward

    def select(self, rows: Tensor) -> Assessment:
        """Return the same of some examples only, in the order of `rows`."""
        return replace(
            self,
            index=self.index[rows],
            labels=self.labels[rows],
            correct=self.correct[rows],
            predicted=None if self.predicted is None else self.predicted[rows],
            attacks=tuple(result.select(rows) for result in self.attacks),
        )

    def merge(self, other: Assessment) -> Assessment:
        """Join outcomes: other attacks on the same examples, or the same attacks on other examples.

        Raises:
            UserError: if the two do not belong together
        """
        return join((self, other))

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain values, as it is stored."""
        return {
            "format": FORMAT,
            "kind": KIND,
            "model": self.model,
            "weights": None if self.weights is None else self.weights.as_dict(),
            "data": self.data,
            "threat": {"norm": self.threat.norm_name, "eps": epsilon.show(self.threat.eps)},
            "seed": self.seed,
            "examples": len(self),
            "accuracy": {
                name: {"share": self.accuracy(name), "interval": list(self.interval(name))}
                for name in self.names
            },
            "classes": list(self.classes),
            "index": self.index.tolist(),
            "labels": self.labels.tolist(),
            "correct": bits(self.correct),
            "predicted": None if self.predicted is None else self.predicted.tolist(),
            "attacks": [result.as_dict() for result in self.attacks],
            "notes": [asdict(note) for note in self.notes],
            "diagnosis": None if self.diagnosis is None else self.diagnosis.as_dict(),
            "environment": self.environment,
        }

    @staticmethod
    def from_dict(stored: dict[str, Any]) -> Assessment:
        """Take what `as_dict` gave."""
        return Assessment(
            model=stored["model"],
            data=stored["data"],
            threat=threat(stored["threat"]["norm"], stored["threat"]["eps"]),
            seed=stored["seed"],
            index=whole(stored["index"]),
            labels=whole(stored["labels"]),
            correct=from_bits(stored["correct"]),
            attacks=tuple(AttackResult.from_dict(one) for one in stored["attacks"]),
            notes=tuple(Note(**note) for note in stored["notes"]),
            environment=stored["environment"],
            predicted=None if stored["predicted"] is None else whole(stored["predicted"]),
            classes=tuple(stored["classes"]),
            diagnosis=None if stored["diagnosis"] is None else Diagnosis.from_dict(stored["diagnosis"]),
            weights=None if stored["weights"] is None else Weights.from_dict(stored["weights"]),
        )

    def save(self, path: Path | str) -> None:
        """Write everything to a JSON file, whole or not at all."""
        write_json(self.as_dict(), values.place(path, "path"))

    @staticmethod
    def load(path: Path | str) -> Assessment:
        """Read an assessment that was saved.

        Raises:
            UserError: if the file is not one, is damaged, or of another version of the format
        """
        return read_json(values.place(path, "path"), kind=KIND, version=FORMAT, make=Assessment.from_dict)

    def _result(self, name: str) -> AttackResult:
        for result in self.attacks:
            if result.label == name:
                return result
        raise unknown("attack", name, self.names, "assessment")
