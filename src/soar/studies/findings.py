"""What a study found: one row a training, as a table and as JSON."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from soar import files
from soar.text import duration

if TYPE_CHECKING:
    from rich.table import Table


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One arm of a study: how its training ended and how its network fared."""

    arm: str
    status: str = "not run"
    """finished, stopped by a guard, failed, or not run"""
    reason: str = ""
    seconds: float | None = None
    """wall-clock time of the training"""
    accuracy: dict[str, float] = field(default_factory=dict)
    """by attack, with "clean" and "worst case"; empty where there is no network"""
    transfer: float | None = None
    """accuracy on the points of the study's source"""
    step_cost: float | None = None
    """CPU time of a training step, relative to PGD-10"""
    recipe: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Findings:
    """All rows of a study and what they were measured on."""

    study: str
    data: str
    threat: str
    examples: int
    transfer_from: str = ""
    rows: tuple[Finding, ...]
    environment: dict[str, Any] = field(default_factory=dict)

    def table(self) -> Table:
        """Make a table for the terminal: the most robust row is marked."""
        from rich import box
        from rich.table import Table

        made = Table(
            box=box.SIMPLE_HEAD,
            title=f"{self.study}: {self.examples} images of {self.data}, {self.threat}",
            title_justify="left",
            caption=self._caption(),
            caption_justify="left",
        )
        made.add_column("training", no_wrap=True)
        for heading in self._headings():
            made.add_column(heading, justify="right")
        best = max((row.accuracy["worst case"] for row in self.rows if row.accuracy), default=None)
        for row in self.rows:
            marked = bool(row.accuracy) and row.accuracy["worst case"] == best
            made.add_row(row.arm, *self._cells(row), style="bold" if marked else "")
        return made

    def save(self, path: Path) -> None:
        """Write everything to a JSON file, whole or not at all."""
        files.write(path, json.dumps(asdict(self), indent=1) + "\n")

    def _attacks(self) -> list[str]:
        return next((list(row.accuracy) for row in self.rows if row.accuracy), [])

    def _headings(self) -> list[str]:
        return [
            *self._attacks(),
            *(["transfer"] if self.transfer_from else []),
            *(["step / PGD-10"] if any(row.step_cost for row in self.rows) else []),
            "trained in",
        ]

    def _cells(self, row: Finding) -> list[str]:
        cells = {name: f"{100 * share:.1f}" for name, share in row.accuracy.items()}
        if not row.accuracy:
            cells["clean"] = row.status
        if row.transfer is not None:
            cells["transfer"] = f"{100 * row.transfer:.1f}"
        if row.step_cost is not None:
            cells["step / PGD-10"] = f"{row.step_cost:.2f}"
        if row.seconds is not None:
            cells["trained in"] = duration(row.seconds)
        return [cells.get(heading, "") for heading in self._headings()]

    def _caption(self) -> str:
        error = 100 * math.sqrt(0.25 / self.examples)
        lines = [f"accuracies in per cent, one standard error at most {error:.1f}"]
        if self.transfer_from:
            lines.append(f"transfer: PGD-20 points of '{self.transfer_from}'")
        lines += [f"{row.arm}: {row.status}, {row.reason}" for row in self.rows if row.reason]
        return "\n".join(lines)
