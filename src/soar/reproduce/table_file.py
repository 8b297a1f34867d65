"""Results of a table as JSON files, for the record and for the results page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import msgspec

from soar.evaluation.files import bits, from_bits, read_json, write_json
from soar.evaluation.shapes import Flags
from soar.reproduce.table_result import Cell, TableResult

FORMAT = 1
KIND = "reproduced table"

_Seconds = Annotated[float, msgspec.Meta(ge=0)]


class _CellShape(msgspec.Struct, forbid_unknown_fields=True):
    """One number: the paper's and ours; what is not known is left out."""

    paper: float | None = None
    paper_std: float | None = None
    values: tuple[float, ...] = ()
    low: float | None = None
    high: float | None = None
    right: Flags | None = None
    each: tuple[float, ...] | None = None
    missing: str = ""
    command: str = ""


class _TableShape(msgspec.Struct, forbid_unknown_fields=True):
    """A file."""

    format: int
    kind: str
    table: str
    scale: str
    seeds: Annotated[int, msgspec.Meta(ge=1)]
    examples: Annotated[int, msgspec.Meta(ge=0)]
    caution: str
    rows: dict[str, dict[str, _CellShape]]
    seconds: _Seconds = 0.0
    environment: dict[str, Any] = {}


def save(result: TableResult, path: Path) -> None:
    """Write a table's result, whole or not at all.

    Raises:
        UserError: if it cannot be written
    """
    content = {
        "format": FORMAT,
        "kind": KIND,
        "table": result.table,
        "scale": result.scale,
        "seeds": result.seeds,
        "examples": result.examples,
        "caution": result.caution,
        "seconds": round(result.seconds, 1),
        "rows": {
            row: {column: _plain(cell) for column, cell in cells.items()}
            for row, cells in result.rows.items()
        },
        "environment": result.environment,
    }
    write_json(content, path)


def load(path: Path) -> TableResult:
    """Read a table's result.

    Raises:
        UserError: if the file cannot be read, is damaged or holds something else
    """
    return read_json(path, kind=KIND, version=FORMAT, make=_made)


def _made(stored: dict[str, Any]) -> TableResult:
    shape = msgspec.convert(stored, _TableShape)
    return TableResult(
        table=shape.table,
        scale=shape.scale,
        seeds=shape.seeds,
        examples=shape.examples,
        caution=shape.caution,
        rows={
            row: {column: _cell(cell) for column, cell in cells.items()} for row, cells in shape.rows.items()
        },
        seconds=shape.seconds,
        environment=shape.environment,
    )


def _plain(cell: Cell) -> dict[str, Any]:
    """Give what a cell holds; what it does not hold takes no line."""
    stored = {
        "paper": cell.paper,
        "paper_std": cell.paper_std,
        "values": list(cell.values),
        "low": cell.low,
        "high": cell.high,
        "right": None if cell.right is None else bits(cell.right),
        "each": cell.each,
        "missing": cell.missing,
        "command": cell.command,
    }
    return {name: value for name, value in stored.items() if value not in (None, "", [])}


def _cell(shape: _CellShape) -> Cell:
    fields = {name: getattr(shape, name) for name in _CellShape.__struct_fields__ if name != "right"}
    return Cell(**fields, right=None if shape.right is None else from_bits(shape.right))
