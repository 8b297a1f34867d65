"""A table of the paper with our numbers beside it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One number of a table: the paper's and ours.

    Args:
        paper: what the paper prints, in the table's unit; None where it prints nothing
        paper_std: its standard deviation over trainings, where it prints one
        values: what we measured, one a seed, in the same unit; empty where nothing was measured
        low: lower end of the 95 % interval of the first seed's value, where there is one
        high: its upper end
        right: which examples the first seed's network has right, where the number is an accuracy
        each: the number of each example of the first seed, where the number is a mean of such
        missing: why nothing was measured, in a few words
        command: what would measure it, where it cannot be done here
    """

    paper: float | None = None
    paper_std: float | None = None
    values: tuple[float, ...] = ()
    low: float | None = None
    high: float | None = None
    right: Tensor | None = field(default=None, compare=False)
    each: tuple[float, ...] | None = None
    missing: str = ""
    command: str = ""

    @property
    def ours(self) -> float | None:
        """The mean over seeds."""
        return sum(self.values) / len(self.values) if self.values else None

    @property
    def std(self) -> float | None:
        """The standard deviation over seeds (n - 1), from two seeds on."""
        if len(self.values) < 2:
            return None
        mean = sum(self.values) / len(self.values)
        return float((sum((one - mean) ** 2 for one in self.values) / (len(self.values) - 1)) ** 0.5)

    @property
    def difference(self) -> float | None:
        """Ours minus the paper's."""
        return None if self.ours is None or self.paper is None else self.ours - self.paper


@dataclass(frozen=True, kw_only=True)
class TableResult:
    """All cells of one table at one scale.

    Args:
        table: the table's id, such as adv_linf
        scale: smoke, small or paper
        seeds: how many trainings each number is the mean of
        examples: how many test images
        caution: how our experiment differs from the paper's, always shown
        rows: cells by row and column; rows are named as in the paper, "ResNet / SOAR" where it has groups
    """

    table: str
    scale: str
    seeds: int
    examples: int
    caution: str
    rows: dict[str, dict[str, Cell]]
    seconds: float = 0.0
    environment: dict[str, Any] = field(default_factory=dict)

    @property
    def has_numbers(self) -> bool:
        """Whether anything in it was measured."""
        return any(cell.values for cells in self.rows.values() for cell in cells.values())
