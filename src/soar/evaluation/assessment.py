"""What an evaluation found: the outcome of every attack on every example, and how it was found."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from soar import values
from soar.errors import printable, unknown
from soar.evaluation.corruptions import Corruptions, corruption_table
from soar.evaluation.diagnosis import Diagnosis, Verdict
from soar.evaluation.files import plain_fields, read_json, tensor_of, write_json
from soar.evaluation.interval import share_of, wilson
from soar.evaluation.rendering import Rendered
from soar.evaluation.shapes import NoteKind as NoteKind
from soar.evaluation.table import CLEAN as CLEAN
from soar.evaluation.table import WORST as WORST
from soar.evaluation.table import table
from soar.threat import Threat, threat
from soar.weights import Weights

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table

KIND = "assessment"
FORMAT, OLDEST = 5, 4


@dataclass(frozen=True)
class Note:
    """One thing about a model's outputs that misleads attacks.

    Args:
        kind: "probabilities" in place of logits; "random" outputs; "state" that outlives a call; outputs that
            depend on the "batch"; layers with "modes" that do not follow `model.eval()`; more "outputs" than
            classes; or "other"
        message: what was got, what is expected and what to do, in one line

    >>> print(Note("random", "the model is randomized"))
    the model is randomized
    """

    kind: NoteKind
    message: str

    def __str__(self) -> str:
        return self.message


@dataclass(frozen=True, eq=False, kw_only=True)
class AttackResult:
    """What one attack did, example by example."""

    label: str
    name: str
    """the attack's class"""
    parameters: dict[str, Any]
    survivors_only: bool = False
    """whether only examples were attacked that the attacks before had left; `robust` is then what is left"""
    samples: int = 1
    """how many outputs of a randomized model were averaged at every point"""
    seconds: float = 0.0
    robust: Tensor
    """whether each example is correctly classified and stays so under the attack"""
    predictions: Tensor | None = None
    """the class predicted at the adversarial point, the label where the example is robust, and the clean
    prediction where the clean image is misclassified; None where they are not known"""
    forward: Tensor
    """forward passes spent on each example"""
    backward: Tensor
    """backward passes spent on each example"""

    def select(self, rows: Tensor) -> AttackResult:
        """Return the outcomes of some examples only."""
        return replace(self, **_rows(self, rows))


@dataclass(frozen=True, eq=False, kw_only=True)
class Assessment(Rendered):
    """Outcomes of attacks on the same examples, with everything needed to repeat them."""

    model: str
    weights: Weights | None = None
    """the file that the model's weights were read from; None if that is not known"""
    data: str
    threat: Threat
    seed: int
    classes: tuple[str, ...] = ()
    """the name of every class, where they are known"""
    index: Tensor
    """each example's position in its data"""
    labels: Tensor
    correct: Tensor
    """whether each clean image is correctly classified"""
    clean_predictions: Tensor | None = None
    """the class predicted for each clean image, where that is known"""
    attacks: tuple[AttackResult, ...]
    protocol: str = ""
    """which way a suite took that decides by what it finds, and why, in one line"""
    notes: tuple[Note, ...] = ()
    """what about the model's outputs misleads attacks"""
    diagnosis: Diagnosis | None = None
    """what was found about gradient masking, where it was looked for"""
    corruptions: Corruptions | None = None
    """accuracy under common corruptions, where it was measured"""
    environment: dict[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.labels)

    def __repr__(self) -> str:
        about = f"{self.model} on {len(self)} images of {self.data}, {self.threat}"
        found = f"{self.accuracy(CLEAN):.1%} clean, {self.worst_case:.1%} worst case"
        return printable(f"<Assessment: {about}: {found}>")

    def __rich__(self) -> Table | Group:
        if self.corruptions is None:
            return table(self)
        from rich.console import Group

        return Group(table(self), corruption_table(self.corruptions))

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

    def predictions(self, name: str) -> Tensor | None:
        """Return the class predicted for each example; under all attacks, that of the first success.

        Args:
            name: an attack's label, "clean" or "worst case"

        Returns:
            One class per example; None where they are not known.
        """
        if name not in (CLEAN, WORST):
            return self._result(name).predictions
        found = self.clean_predictions
        for result in self.attacks if name == WORST else ():
            if found is None or result.predictions is None:
                return None
            found = torch.where(found == self.labels, result.predictions, found)
        return found

    def accuracy(self, name: str) -> float:
        """Return the share of all examples that are correctly classified under an attack.

        Args:
            name: an attack's label, "clean" or "worst case"
        """
        return share_of(self.survivors(name))

    def interval(self, name: str) -> tuple[float, float]:
        """Return the 95% interval of an accuracy."""
        return wilson(int(self.survivors(name).sum()), len(self))

    @property
    def worst_case(self) -> float:
        """The share of examples that are robust under all attacks."""
        return self.accuracy(WORST)

    def passes(self, name: str) -> tuple[float, float]:
        """Return the mean number of forward and backward passes per example, the clean one included once."""
        if name == CLEAN:
            return 1.0, 0.0
        wanted = [result for result in self.attacks if name in (WORST, result.label)]
        count = max(1, len(self))
        forward = sum(int(result.forward.sum()) for result in wanted) / count
        backward = sum(int(result.backward.sum()) for result in wanted) / count
        return forward + (1.0 if name == WORST else 0.0), backward

    def select(self, rows: Tensor) -> Assessment:
        """Return the outcomes of some examples only, in the order of `rows`."""
        return replace(
            self,
            attacks=tuple(one.select(rows) for one in self.attacks),
            corruptions=None if self.corruptions is None else self.corruptions.select(rows),
            **_rows(self, rows),
        )

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain values, as it is stored."""
        accuracy = {
            name: {"share": self.accuracy(name), "interval": [*self.interval(name)]} for name in self.names
        }
        return {
            "format": FORMAT,
            "kind": KIND,
            "examples": len(self),
            "accuracy": accuracy,
            **plain_fields(self),
        }

    @staticmethod
    def from_dict(stored: dict[str, Any]) -> Assessment:
        """Restore what `as_dict` returned.

        Raises:
            ValueError: if parts of it contradict each other
        """
        restored = {
            "threat": threat(**stored["threat"]),
            "attacks": tuple(AttackResult(**_restored(AttackResult, one)) for one in stored["attacks"]),
            "notes": tuple(Note(**note) for note in stored["notes"]),
            "classes": tuple(stored["classes"]),
            "diagnosis": stored["diagnosis"] and Diagnosis.from_dict(stored["diagnosis"]),
            "weights": stored["weights"] and Weights.from_dict(stored["weights"]),
            "corruptions": stored["corruptions"]
            and Corruptions.from_dict(stored["corruptions"], stored["examples"]),
        }
        found = Assessment(**_restored(Assessment, stored) | restored)
        _check_lengths(found, stored["examples"])
        _check_outcomes(found, {name: one["share"] for name, one in stored["accuracy"].items()})
        return found

    def save(self, path: Path | str) -> None:
        """Write everything to a JSON file, whole or not at all."""
        write_json(self.as_dict(), values.place(path, "path"))

    @staticmethod
    def load(path: Path | str) -> Assessment:
        """Read an assessment that was saved.

        Raises:
            UserError: if the file is not one, is damaged, or of another version of the format
        """
        return read_json(
            values.place(path, "path"), kind=KIND, version=FORMAT, oldest=OLDEST, make=Assessment.from_dict
        )

    def _result(self, name: str) -> AttackResult:
        for result in self.attacks:
            if result.label == name:
                return result
        raise unknown("attack", name, self.names, "assessment")


def tensors(record: Assessment | AttackResult | type[Assessment | AttackResult]) -> list[str]:
    """Return the names of the fields with an entry for each example."""
    return [one.name for one in fields(record) if "Tensor" in str(one.type)]


def _rows(record: Assessment | AttackResult, rows: Tensor) -> dict[str, Any]:
    found = {name: getattr(record, name) for name in tensors(record)}
    return {name: None if value is None else value[rows] for name, value in found.items()}


def _restored(kind: type[Assessment | AttackResult], stored: dict[str, Any]) -> dict[str, Any]:
    """Return the stored fields of a record, with tensors in place of what stands for them."""
    kept = {one.name: stored[one.name] for one in fields(kind)}
    return kept | {name: tensor_of(stored[name]) for name in tensors(kind)}


def _check_lengths(found: Assessment, examples: int) -> None:
    """Refuse tensors that do not have an entry for each example, and examples that are there twice."""
    records: dict[str, Assessment | AttackResult] = {"": found}
    records |= {f"attacks[{place}].": one for place, one in enumerate(found.attacks)}
    for where, record in records.items():
        for name in tensors(record):
            value = getattr(record, name)
            if value is not None and len(value) != examples:
                raise ValueError(f"{where}{name} has {len(value)} entries for {examples} examples")
    if len(found.index.unique()) < examples:
        raise ValueError("index names an example twice")
    if found.classes and examples and (highest := int(found.labels.max())) >= len(found.classes):
        raise ValueError(f"label {highest} has no name in classes, which are {len(found.classes)}")


def _check_outcomes(found: Assessment, shares: dict[str, float]) -> None:
    """Refuse labels, flags, predictions and shares that contradict each other."""
    if len(set(found.names)) < len(found.names):
        raise ValueError("two attacks have the same label")
    if shares.keys() != set(found.names):
        raise ValueError("accuracy does not name clean, the attacks and the worst case")
    columns = [("clean_predictions", found.clean_predictions, "correct", found.correct)]
    for place, result in enumerate(found.attacks):
        columns.append((f"attacks[{place}].predictions", result.predictions, "robust", result.robust))
        if bool((result.robust & ~found.correct).any()):
            raise ValueError(f"attacks[{place}].robust has examples that are not correct")
    for name, predictions, flags_name, flags in columns:
        if predictions is None or not bool((wrong := (predictions == found.labels) != flags).any()):
            continue
        first = int(wrong.nonzero()[0])
        raise ValueError(f"{name}[{first}] is {int(predictions[first])} but {flags_name} says otherwise")
    for name, share in shares.items():
        if abs(share - found.accuracy(name)) > 1e-9:
            raise ValueError(f"accuracy of {name} is {share} but the examples give {found.accuracy(name)}")
