"""What a certification found: which examples no perturbation can change, and how it was proved."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor

from soar import values
from soar.errors import printable
from soar.evaluation.files import plain_fields, read_json, tensor_of, write_json
from soar.evaluation.interval import share_of, wilson
from soar.evaluation.rendering import Rendered
from soar.evaluation.table import certificate_table
from soar.threat import Threat, threat
from soar.weights import Weights

if TYPE_CHECKING:
    from rich.table import Table

KIND = "certificate"
FORMAT = 1


@dataclass(frozen=True, eq=False, kw_only=True)
class Certificate(Rendered):
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
    """time that the method took, without that of an interrupted call before; smoothing takes it once for all
    radii"""
    cpu_seconds: float
    """the same on all cores and in all processes"""
    environment: dict[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.labels)

    def __repr__(self) -> str:
        about = f"{self.model} on {len(self)} images of {self.data}, {self.threat}, {self.method}"
        return printable(f"<Certificate: {about}: {self.accuracy:.1%} certified>")

    def __rich__(self) -> Table:
        return certificate_table([self])

    @property
    def is_smoothed(self) -> bool:
        """Whether it is about the smoothed model, and says nothing about the model itself."""
        return self.method == "smoothing"

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
        """Restore what `as_dict` returned.

        Raises:
            ValueError: if parts of it contradict each other
        """
        derived = ("format", "kind", "examples", "accuracy")
        kept = {name: value for name, value in stored.items() if name not in derived}
        restored = {
            "threat": threat(**stored["threat"]),
            "weights": stored["weights"] and Weights.from_dict(stored["weights"]),
            **{name: tensor_of(stored[name]) for name in ("index", "labels", "correct", "certified")},
        }
        found = Certificate(**kept | restored)
        for name in ("index", "labels", "correct", "certified"):
            if (count := len(getattr(found, name))) != stored["examples"]:
                raise ValueError(f"{name} has {count} entries for {stored['examples']} examples")
        if len(found.index.unique()) < len(found):
            raise ValueError("index names an example twice")
        if bool((found.certified & ~found.correct).any()):
            raise ValueError("certified marks an example that is not correctly classified")
        share = stored["accuracy"]["share"]
        if abs(share - found.accuracy) > 1e-9:
            raise ValueError(f"accuracy is {share} but the examples give {found.accuracy}")
        return found

    def save(self, path: Path | str) -> None:
        """Write everything to a JSON file, whole or not at all."""
        write_json(self.as_dict(), values.place(path, "path"))

    @staticmethod
    def load(path: Path | str) -> Certificate:
        """Read a certificate that was saved.

        Raises:
            UserError: if the file is not one, is damaged, or of another version of the format
        """
        return read_json(values.place(path, "path"), kind=KIND, version=FORMAT, make=Certificate.from_dict)
