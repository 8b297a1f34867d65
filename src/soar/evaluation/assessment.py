"""What an evaluation found: the outcome of every attack on every example, and how it was found."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from soar import epsilon
from soar.errors import UserError, unknown
from soar.evaluation.interval import wilson
from soar.threat import Threat, threat

FORMAT = 1
CLEAN = "clean"
WORST = "worst case"


@dataclass(frozen=True, eq=False)
class AttackResult:
    """What one attack did, example by example."""

    label: str
    name: str
    """the attack's name in the registry, or its class"""
    parameters: dict[str, Any]
    robust: Tensor
    """whether each example is classified right and stayed so"""
    forward: Tensor
    """predictions spent on each example"""
    backward: Tensor
    """gradients spent on each example"""
    seconds: float = 0.0
    survivors_only: bool = False
    """whether only examples were attacked that the attacks before had left; `robust` is then what is left"""
    samples: int = 1
    """how many answers of a randomised model were averaged at every point"""


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
    """whether each clean image is classified right"""
    attacks: tuple[AttackResult, ...]
    notes: tuple[str, ...] = ()
    """what is odd about the model's answers"""
    environment: dict[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def names(self) -> list[str]:
        """Everything that `accuracy` knows: clean, every attack, worst case."""
        return [CLEAN, *(result.label for result in self.attacks), WORST]

    def survivors(self, name: str) -> Tensor:
        """Tell which examples are classified right under an attack, cleanly, or under all attacks."""
        if name == CLEAN:
            return self.correct
        if name == WORST:
            return torch.stack([self.correct, *(result.robust for result in self.attacks)]).all(dim=0)
        for result in self.attacks:
            if result.label == name:
                return result.robust
        raise unknown("attack", name, self.names, "assessment")

    def accuracy(self, name: str) -> float:
        """Give the share of all examples that are classified right under an attack.

        Args:
            name: an attack's label, "clean" or "worst case"
        """
        return int(self.survivors(name).sum()) / max(1, len(self))

    def interval(self, name: str) -> tuple[float, float]:
        """Give the 95 % interval of an accuracy."""
        return wilson(int(self.survivors(name).sum()), len(self))

    @property
    def worst_case(self) -> float:
        """The share of examples that no attack broke."""
        return self.accuracy(WORST)

    def passes(self, name: str) -> tuple[float, float]:
        """Give the mean number of predictions and gradients an example, the clean one included once."""
        if name == CLEAN:
            return 1.0, 0.0
        wanted = [result for result in self.attacks if name in (WORST, result.label)]
        count = max(1, len(self))
        forward = sum(int(result.forward.sum()) for result in wanted) / count
        backward = sum(int(result.backward.sum()) for result in wanted) / count
        return forward + (1.0 if name == WORST else 0.0), backward

    def merge(self, other: Assessment) -> Assessment:
        """Join outcomes: other attacks on the same examples, or the same attacks on other examples.

        Raises:
            UserError: if the two do not belong together
        """
        for name in ("model", "data", "threat", "seed"):
            if getattr(self, name) != getattr(other, name):
                raise UserError(
                    f"assessments differ in {name}: got {getattr(self, name)} and {getattr(other, name)}"
                )
        if torch.equal(self.index, other.index):
            return self._with_attacks_of(other)
        return self._with_examples_of(other)

    def _with_attacks_of(self, other: Assessment) -> Assessment:
        if not torch.equal(self.correct, other.correct):
            raise UserError("assessments differ in which clean images are classified right")
        twice = {r.label for r in self.attacks} & {r.label for r in other.attacks}
        if twice:
            raise UserError(f"both assessments hold the attack '{min(twice)}'")
        return replace(self, attacks=(*self.attacks, *other.attacks))

    def _with_examples_of(self, other: Assessment) -> Assessment:
        if [r.label for r in self.attacks] != [r.label for r in other.attacks]:
            raise UserError("assessments of different examples hold different attacks")
        if set(self.index.tolist()) & set(other.index.tolist()):
            raise UserError("assessments share some examples, expected the same ones or none")
        joined = [
            replace(
                one,
                robust=torch.cat([one.robust, two.robust]),
                forward=torch.cat([one.forward, two.forward]),
                backward=torch.cat([one.backward, two.backward]),
                seconds=max(one.seconds, two.seconds),
            )
            for one, two in zip(self.attacks, other.attacks, strict=True)
        ]
        return replace(
            self,
            index=torch.cat([self.index, other.index]),
            labels=torch.cat([self.labels, other.labels]),
            correct=torch.cat([self.correct, other.correct]),
            attacks=tuple(joined),
            notes=tuple(dict.fromkeys([*self.notes, *other.notes])),
        )

    def save(self, path: Path | str) -> None:
        """Write everything to a JSON file, whole or not at all."""
        target = Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.with_name(f".{target.name}.{os.getpid()}")
        temporary.write_text(json.dumps(self._as_dict(), indent=1) + "\n")
        os.replace(temporary, target)

    @staticmethod
    def load(path: Path | str) -> Assessment:
        """Read an assessment that was saved.

        Raises:
            UserError: if the file is not an assessment
        """
        try:
            stored = json.loads(Path(path).read_text())
            if stored["format"] != FORMAT:
                raise UserError(f"{path}: got format {stored['format']}, expected {FORMAT}")
            return _from_dict(stored)
        except OSError as error:
            raise UserError(f"{path}: cannot be read ({error.strerror})") from None
        except (json.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
            raise UserError(f"{path}: not an assessment ({type(error).__name__}: {error})") from None

    def _as_dict(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "model": self.model,
            "data": self.data,
            "threat": {"norm": self.threat.norm_name, "eps": epsilon.show(self.threat.eps)},
            "seed": self.seed,
            "examples": len(self),
            "accuracy": {
                name: {"share": self.accuracy(name), "interval": list(self.interval(name))}
                for name in self.names
            },
            "index": self.index.tolist(),
            "labels": self.labels.tolist(),
            "correct": _bits(self.correct),
            "attacks": [
                {
                    "label": result.label,
                    "name": result.name,
                    "parameters": result.parameters,
                    "robust": _bits(result.robust),
                    "forward": result.forward.tolist(),
                    "backward": result.backward.tolist(),
                    "seconds": round(result.seconds, 3),
                    "survivors_only": result.survivors_only,
                    "samples": result.samples,
                }
                for result in self.attacks
            ],
            "notes": list(self.notes),
            "environment": self.environment,
        }


def _from_dict(stored: dict[str, Any]) -> Assessment:
    return Assessment(
        model=stored["model"],
        data=stored["data"],
        threat=threat(stored["threat"]["norm"], stored["threat"]["eps"]),
        seed=stored["seed"],
        index=torch.tensor(stored["index"], dtype=torch.int64),
        labels=torch.tensor(stored["labels"], dtype=torch.int64),
        correct=_from_bits(stored["correct"]),
        attacks=tuple(
            AttackResult(
                label=one["label"],
                name=one["name"],
                parameters=one["parameters"],
                robust=_from_bits(one["robust"]),
                forward=torch.tensor(one["forward"], dtype=torch.int64),
                backward=torch.tensor(one["backward"], dtype=torch.int64),
                seconds=one["seconds"],
                survivors_only=one.get("survivors_only", False),
                samples=one.get("samples", 1),
            )
            for one in stored["attacks"]
        ),
        notes=tuple(stored.get("notes", ())),
        environment=stored["environment"],
    )


def _bits(flags: Tensor) -> str:
    """Write flags as a line of 0 and 1, which a person can read and a diff can show."""
    return "".join("1" if flag else "0" for flag in flags.tolist())


def _from_bits(text: str) -> Tensor:
    return torch.tensor([character == "1" for character in text], dtype=torch.bool)
