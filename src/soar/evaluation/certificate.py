"""What a certification found: which examples no perturbation of a threat can change, and how it was proved."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from soar import values
from soar.errors import UserError, printable
from soar.evaluation.assessment import WORST, Assessment
from soar.evaluation.compare import rows_in_common
from soar.evaluation.files import plain_fields, read_json, tensor_of, write_json
from soar.evaluation.interval import share_of, wilson
from soar.evaluation.table import as_html, as_text, certificate_table
from soar.threat import Threat, threat
from soar.weights import Weights

KIND = "certificate"
FORMAT = 1


@dataclass(frozen=True, eq=False, kw_only=True)
class Certificate:
    """Which examples are proved to be robust, with everything needed to repeat the proof."""

    model: str
    weights: Weights | None = None
    """the file that the model's weights were read from; None if that is not known"""
    data: str
    threat: Threat
    seed: int
    method: str
    """crown, ibp or smoothing; the last certifies the smoothed model and not the model itself"""
    options: dict[str, float | int | str | bool]
    """what the method was run with"""
    index: Tensor
    """each example's position in its data"""
    labels: Tensor
    correct: Tensor
    """whether each clean image is correctly classified, by the smoothed model if that is certified"""
    certified: Tensor
    """whether it is correctly classified and no perturbation within the threat changes that"""
    seconds: float
    """time spent, in all"""
    environment: dict[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.labels)

    def __repr__(self) -> str:
        about = f"{self.model} on {len(self)} images of {self.data}, {self.threat}, {self.method}"
        return printable(f"<Certificate: {about}: {self.accuracy:.1%} certified>")

    def __str__(self) -> str:
        return as_text(certificate_table([self]))

    def _repr_html_(self) -> str:
        """Return the table for a notebook."""
        return as_html(certificate_table([self]))

    @property
    def accuracy(self) -> float:
        """The certified accuracy: no attack within the threat leaves less."""
        return share_of(self.certified)

    @property
    def interval(self) -> tuple[float, float]:
        """The 95% interval of the certified accuracy."""
        return wilson(int(self.certified.sum()), len(self))

    @property
    def clean_accuracy(self) -> float:
        """The share of clean images that are correctly classified."""
        return share_of(self.correct)

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain values, as it is stored."""
        shares = {"share": self.accuracy, "interval": [*self.interval]}
        about = {"format": FORMAT, "kind": KIND, "examples": len(self), "accuracy": shares}
        return {**about, **plain_fields(self)}

    @staticmethod
    def from_dict(stored: dict[str, Any]) -> Certificate:
        """Restore what `as_dict` returned."""
        derived = ("format", "kind", "examples", "accuracy")
        kept = {name: value for name, value in stored.items() if name not in derived}
        restored = {
            "threat": threat(**stored["threat"]),
            "weights": stored["weights"] and Weights.from_dict(stored["weights"]),
            **{name: tensor_of(stored[name]) for name in ("index", "labels", "correct", "certified")},
        }
        found = Certificate(**kept | restored)
        if len({len(one) for one in (found.index, found.labels, found.correct, found.certified)}) != 1:
            raise ValueError("index, labels, correct and certified differ in length")
        return found

    def save(self, path: Path | str) -> None:
        """Write everything to a JSON file, whole or not at all."""
        write_json(self.as_dict(), values.place(path, "path"))

    @staticmethod
    def load(path: Path | str) -> Certificate:
        """Read a certificate that was saved.

        Raises:
            UserError: if the file is not one, or of another version of the format
        """
        return read_json(values.place(path, "path"), kind=KIND, version=FORMAT, make=Certificate.from_dict)


@dataclass(frozen=True)
class Bracket:
    """Two sides of the truth on the same examples: robust accuracy is at least one and at most the other.

    Args:
        threat: what the adversary may do
        certified: the share of examples that are proved to be robust
        attacked: the share that is left by all attacks
        clean: the share that is correctly classified without any
        examples: how many there are
    """

    threat: Threat
    certified: float
    attacked: float
    clean: float
    examples: int


def bracket(certificate: Certificate, assessment: Assessment) -> Bracket:
    """Set what was proved beside what attacks found, on the examples that both know.

    Args:
        certificate: of the model itself, not of its smoothed version
        assessment: of the same model, data and threat

    Raises:
        UserError: if they do not belong together, or an attack fooled a certified example, which must not be
    """
    same = (certificate.threat, certificate.data) == (assessment.threat, assessment.data)
    if not same or certificate.method == "smoothing":
        raise UserError(
            f"certificate of {certificate.data}, {certificate.threat} ({certificate.method}): cannot be"
            f" compared with attacks on {assessment.data}, {assessment.threat}"
        )
    mine, theirs = rows_in_common(certificate.index, assessment.index)
    proved, left = certificate.certified[mine], assessment.survivors(WORST)[theirs]
    wrong = proved & ~left
    if bool(wrong.any()):
        raise contradiction(certificate.method, certificate.threat, certificate.index[mine][wrong])
    return Bracket(
        certificate.threat,
        share_of(proved),
        share_of(left),
        share_of(assessment.correct[theirs]),
        len(proved),
    )


def contradiction(method: str, threat: Threat, index: Tensor) -> UserError:
    """Return the error for examples that are both certified and fooled: one of the two is wrong.

    Args:
        method: what certified them
        threat: within what
        index: which examples
    """
    some = ", ".join(map(str, torch.sort(index).values[:5].tolist()))
    return UserError(
        f"{method}: {len(index)} images are certified at {threat} and fooled by an attack (such as {some});"
        " the weights differ, or the bound is wrong: do not use it, and please report the model"
    )
