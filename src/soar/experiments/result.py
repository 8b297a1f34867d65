"""The numbers of an experiment as a table, and as a JSON file."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Annotated, Any

import msgspec
from torch import Tensor

from soar.evaluation.files import from_bits, read_json, write_json
from soar.evaluation.shapes import Flags

FORMAT = 2
KIND = "experiment"
SECONDS = "seconds"


class Cell(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One number of a table: the paper's and ours; what is not known is left out of the file.

    Args:
        paper: the paper's number, in the table's unit; None where it prints nothing
        paper_std: its standard deviation over training runs, where it prints one
        values: what we measured, one per seed, in the same unit; empty where nothing was measured
        low: lower end of the 95% interval of the first seed's value, where there is one
        high: its upper end
        correct: which examples the first seed's network classifies correctly, where that is the number
        each: the number of each example of the first seed, where the number is a mean of such
        missing: why nothing was measured, in a few words
        command: what would measure it, where it cannot be done here
    """

    paper: float | None = None
    paper_std: float | None = None
    values: tuple[float, ...] = ()
    low: float | None = None
    high: float | None = None
    correct: Flags | None = None
    each: tuple[float, ...] | None = None
    missing: str = ""
    command: str = ""

    @property
    def ours(self) -> float | None:
        """The mean over seeds."""
        return statistics.fmean(self.values) if self.values else None

    @property
    def std(self) -> float | None:
        """The standard deviation over seeds (n - 1), from two seeds on."""
        return statistics.stdev(self.values) if len(self.values) > 1 else None

    @property
    def difference(self) -> float | None:
        """Ours minus the paper's."""
        return None if self.ours is None or self.paper is None else self.ours - self.paper

    @property
    def flags(self) -> Tensor | None:
        """Which examples are correctly classified, as a tensor."""
        return None if self.correct is None else from_bits(self.correct)


class Result(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All cells of an experiment's table.

    Args:
        name: the experiment, such as adv_linf
        title: what it shows
        scale: smoke, small or paper; empty for an experiment of one size
        seeds: how many training runs each number is the mean of
        examples: number of images; 0 where there are none
        data: what they are, and the threat where all attacks share one
        split: which part of the data they are from, test or validation
        unit: of the numbers, such as percent
        units: units of columns that have another one
        row_key: what a row is, such as method
        caution: how the experiment differs from the paper's, always shown
        rows: cells by row and column; rows are called "ResNet / SOAR" where they have groups
        runs: run folders by row, one per seed
        validation: robust accuracy on validation by row, in percent, where that selects a row
        seconds: what the measurements took
        environment: software and hardware
    """

    name: str
    title: str = ""
    scale: str = ""
    seeds: Annotated[int, msgspec.Meta(ge=1)] = 1
    examples: Annotated[int, msgspec.Meta(ge=0)] = 0
    data: str = ""
    split: str = "test"
    unit: str = "percent"
    units: dict[str, str] = {}
    row_key: str = "training"
    caution: str = ""
    rows: dict[str, dict[str, Cell]]
    runs: dict[str, tuple[str, ...]] = {}
    validation: dict[str, float] = {}
    seconds: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    environment: dict[str, Any] = {}

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return list(next(iter(self.rows.values()), {}))

    @property
    def has_numbers(self) -> bool:
        """Whether anything in it was measured."""
        return any(cell.values for cells in self.rows.values() for cell in cells.values())

    @property
    def has_paper(self) -> bool:
        """Whether the paper has numbers for it."""
        return any(cell.paper is not None for cells in self.rows.values() for cell in cells.values())

    @property
    def file_name(self) -> str:
        """The name of its file, without the ending."""
        return f"{self.name}-{self.scale}" if self.scale else self.name

    def save(self, path: Path) -> None:
        """Write it to a JSON file, whole or not at all.

        Raises:
            UserError: if it cannot be written
        """
        content = {"format": FORMAT, "kind": KIND, **msgspec.to_builtins(self)}
        write_json({**content, "seconds": round(self.seconds, 1)}, path)

    @staticmethod
    def load(path: Path) -> Result:
        """Read it from a JSON file.

        Raises:
            UserError: if the file cannot be read, is damaged or holds something else
        """

        def made(stored: dict[str, Any]) -> Result:
            return msgspec.convert({k: v for k, v in stored.items() if k not in ("format", "kind")}, Result)

        return read_json(path, kind=KIND, version=FORMAT, make=made)
