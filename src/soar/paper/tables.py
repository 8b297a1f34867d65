"""The numbers of the paper: its 20 tables, and those that stand in its text."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from soar.errors import unknown

_FILE = Path(__file__).with_name("tables.json")


@dataclass(frozen=True, kw_only=True)
class PaperRow:
    """One row of a table.

    Args:
        name: unique in its table: "ResNet / SOAR" where it has groups or architectures, "SOAR" where not, and
            the beta, margin, start, model or checkpoint as text in tables of those
        values: the printed numbers by column; None where a dash is printed
        std: the printed standard deviations over trainings, where there are any
    """

    name: str
    values: dict[str, float | None]
    std: dict[str, float]


@dataclass(frozen=True, kw_only=True)
class PaperTable:
    """One table of the paper.

    Args:
        id: its label in the paper
        gist: what it shows
        dataset: as the paper writes it
        norm: linf, l2 or both
        eps: the radius of the attacks; several where each cell of the paper holds several numbers, none where
            the columns say it
        unit: of all numbers, such as percent
        row_key: what a row is, such as method or beta
        columns: heads of the columns, corrected where the paper's are wrong
        rows: from top to bottom
    """

    id: str
    gist: str
    dataset: str
    norm: str
    eps: str | tuple[str, ...] | None
    unit: str
    row_key: str
    columns: tuple[str, ...]
    rows: tuple[PaperRow, ...]

    def row(self, name: str) -> PaperRow:
        """Give a row by its name.

        Raises:
            UserError: if there is none
        """
        for row in self.rows:
            if row.name == name:
                return row
        raise unknown("row", name, [row.name for row in self.rows], f"table {self.id}")


class PaperText(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Numbers that stand in the text and in no table."""

    non_zero_gradient_elements: dict[str, float]
    """mean number of input values with a gradient other than zero, by network; "of" says of how many"""
    pgd20_with_eps_1_accuracy_percent: dict[str, float]
    minutes_per_epoch_wideresnet: dict[str, float]
    passes_per_minibatch: dict[str, tuple[int, int] | str]
    """forward and backward passes"""
    svhn_minus_cifar_points: dict[str, float]


class _Row(msgspec.Struct, forbid_unknown_fields=True):
    values: dict[str, float | list[float] | None]
    std: dict[str, float] = {}
    group: str = ""
    architecture: str = ""
    method: str = ""
    beta: float | None = None
    margin: float | None = None
    init: str = ""
    model: str = ""
    checkpoint: str = ""
    bold: list[str] = []
    underlined: list[str] = []


class _Table(msgspec.Struct, forbid_unknown_fields=True):
    id: str
    label: str
    gist: str
    dataset: str
    norm: str
    eps: str | tuple[str, ...] | None
    unit: str
    row_key: str
    columns: list[str]
    rows: list[_Row]
    notes: list[str] = []
    columns_corrected: list[str] = []


class _File(msgspec.Struct, forbid_unknown_fields=True):
    source: str
    conventions: list[str]
    numbers_in_text: PaperText
    tables: list[_Table]


def load(table_id: str) -> PaperTable:
    """Give a table of the paper.

    Args:
        table_id: one of TABLES

    Raises:
        UserError: if there is no such table

    >>> load("adv_linf").row("ResNet / SOAR").values["PGD20"]
    56.06
    """
    if table_id not in _LOADED:
        raise unknown("table", table_id, TABLES, "soar reproduce TABLE")
    return _LOADED[table_id]


def _table(raw: _Table) -> PaperTable:
    """Name columns and rows; a cell with a number for each eps becomes as many columns, "APGD-CE@8/255"."""
    heads = dict(zip(raw.columns, raw.columns_corrected or raw.columns, strict=True))
    several = raw.eps if isinstance(raw.eps, tuple) else ()
    columns = [f"{head}@{eps}" for head in heads.values() for eps in several] or list(heads.values())
    rows = []
    for row in raw.rows:
        numbers: list[Any] = [row.values[printed] for printed in raw.columns]
        if several:
            numbers = [number for cell in numbers for number in cell]
        values = dict(zip(columns, numbers, strict=True))
        std = {heads[printed]: number for printed, number in row.std.items()}
        rows.append(PaperRow(name=_name(row, raw.row_key), values=values, std=std))
    return PaperTable(
        id=raw.id,
        gist=raw.gist,
        dataset=raw.dataset,
        norm=raw.norm,
        eps=raw.eps,
        unit=raw.unit,
        row_key=raw.row_key,
        columns=tuple(columns),
        rows=tuple(rows),
    )


def _name(row: _Row, key: str) -> str:
    own = getattr(row, key)
    text = own if isinstance(own, str) else f"{own:g}"
    group = row.group or row.architecture
    return f"{group} / {text}" if group else text


_CONTENT = msgspec.json.decode(_FILE.read_bytes(), type=_File)
_LOADED = {raw.id: _table(raw) for raw in _CONTENT.tables}
TABLES: tuple[str, ...] = tuple(_LOADED)
TEXT: PaperText = _CONTENT.numbers_in_text
