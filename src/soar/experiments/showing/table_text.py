"""A table as lines of text: the paper's number, ours and the difference side by side, broken to a width."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from soar.experiments.table_result import Cell, TableResult

NOTHING = "-"
COUNT = "count"
_HEADS = ("paper", "ours", "diff")
_GAP = "   "
_NARROWEST = 20
_ROUNDING = 1e-12  # a difference this small is none


@dataclass(frozen=True)
class Block:
    """One column of the paper's table: its three columns of text, each as wide as its widest."""

    name: str
    texts: tuple[tuple[str, str, str], ...]

    @property
    def widths(self) -> tuple[int, int, int]:
        """How wide each of the three is."""
        first, second, third = (
            max(len(text[k]) for text in (_HEADS, *self.texts)) for k in range(len(_HEADS))
        )
        return first, second, third

    @property
    def width(self) -> int:
        """How wide all of it is."""
        return max(sum(self.widths) + 2, len(self.name))

    def line(self, k: int | None) -> str:
        """Write the heads or the k-th row."""
        texts = _HEADS if k is None else self.texts[k]
        joined = " ".join(text.rjust(width) for text, width in zip(texts, self.widths, strict=True))
        return joined.rjust(self.width)


def lines(result: TableResult, unit: str, width: int, corner: str = "") -> list[list[str]]:
    """Lay a table out in as few parts as the width allows.

    Args:
        result: the table
        unit: the unit of its numbers
        width: how many characters fit into a line
        corner: what the rows are, such as method

    Returns:
        The lines of each part, the first two of them heads.
    """
    names = list(next(iter(result.rows.values()), {}))
    units = {name: unit_of(result, name, unit) for name in names}
    blocks = [Block(n, tuple(texts(cells[n], units[n]) for cells in result.rows.values())) for n in names]
    # A long name is broken, so that there is room for a column beside it.
    most = max(width - max((block.width for block in blocks), default=0) - len(_GAP), _NARROWEST)
    label = min(max((len(one) for one in [corner, *map(_label, result.rows)]), default=0), most)
    return [_part(result, part, label, corner) for part in _parts(blocks, width - label)]


def _parts(blocks: Sequence[Block], width: int) -> list[list[Block]]:
    """Share blocks among as few parts as fit, each with about as many."""
    parts: list[list[Block]] = []
    for count in range(1, len(blocks) + 1):
        size = -(-len(blocks) // count)
        parts = [list(blocks[k : k + size]) for k in range(0, len(blocks), size)]
        if all(sum(len(_GAP) + block.width for block in part) <= width for part in parts):
            break
    return parts


def _part(result: TableResult, blocks: Sequence[Block], label: int, corner: str) -> list[str]:
    def line(name: str, columns: Sequence[str]) -> str:
        return _GAP.join([name.ljust(label), *columns]).rstrip()

    made = [
        line("", [block.name.center(block.width) for block in blocks]),
        line(corner, [block.line(None) for block in blocks]),
    ]
    group = ""
    for k, row in enumerate(result.rows):
        own = row.rpartition(" / ")[0]
        if own != group:
            group = own
            made.append(own)
        *before, last = textwrap.wrap(_label(row), label, subsequent_indent="  ") or [""]
        made += [*before, line(last, [block.line(k) for block in blocks])]
    return made


def _label(row: str) -> str:
    """Give the name of a row below that of its group."""
    group, _, name = row.rpartition(" / ")
    return f"  {name}" if group else name


def texts(cell: Cell, unit: str) -> tuple[str, str, str]:
    """Write the paper's number, ours and the difference.

    >>> texts(Cell(paper=56.06, values=(41.2, 42.2)), "percent")
    ('56.06', '41.70±0.71', '-14.36')
    """
    return (
        with_std(cell.paper, cell.paper_std, unit),
        with_std(cell.ours, cell.std, unit),
        NOTHING if cell.difference is None else number(cell.difference, unit, sign=True),
    )


def with_std(value: float | None, std: float | None, unit: str) -> str:
    """Write a mean with its standard deviation where there is one.

    >>> with_std(42.861, 0.214, "percent"), with_std(None, None, "percent")
    ('42.86±0.21', '-')
    """
    if value is None:
        return NOTHING
    return number(value, unit) + ("" if std is None else f"±{number(std, unit)}")


def unit_of(result: TableResult, column: str, unit: str) -> str:
    """Give the unit of a column: the table's, but counts where all numbers are whole, such as passes.

    >>> rows = {"SOAR": {"forward": Cell(paper=3, values=(3.0,)), "minutes": Cell(paper=26.5)}}
    >>> made = TableResult(table="cost", scale="small", seeds=1, examples=0, caution="", rows=rows)
    >>> unit_of(made, "forward", "passes, minutes"), unit_of(made, "minutes", "passes, minutes")
    ('count', 'passes, minutes')
    """
    numbers = [one for cells in result.rows.values() for one in (cells[column].paper, *cells[column].values)]
    known = [one for one in numbers if one is not None]
    return COUNT if known and unit != "percent" and all(one == round(one) for one in known) else unit


def number(value: float, unit: str, *, sign: bool = False) -> str:
    """Write a number as its unit asks: two decimals, fewer digits for the very large and very small.

    >>> number(56.0625, "percent"), number(-3.2, "percent", sign=True), number(0.00123, "loss")
    ('56.06', '-3.20', '0.00123')
    >>> number(12345.6, "minutes"), number(-2.2e-16, "ratio", sign=True), number(11.0, "count")
    ('12346', '+0.00', '11')
    """
    plus = "+" if sign else ""
    value = 0.0 if abs(value) < _ROUNDING else value
    if unit == COUNT:
        return f"{value:{plus}g}"
    if unit == "percent" or value == 0 or 0.1 <= abs(value) < 1000:
        return f"{value:{plus}.2f}"
    return f"{value:{plus}.0f}" if 1000 <= abs(value) < 1e6 else f"{value:{plus}.3g}"


def missing(result: TableResult) -> list[tuple[str, str, tuple[str, ...]]]:
    """Tell what was not measured: which cells, why, and what would do it; cells with one reason together."""
    places: dict[str, dict[str, list[str]]] = {}
    commands: dict[str, dict[str, None]] = {}
    for row, cells in result.rows.items():
        for column, cell in cells.items():
            if not cell.values and (cell.missing or cell.command):
                places.setdefault(cell.missing, {}).setdefault(row, []).append(column)
                commands.setdefault(cell.missing, {}).update({cell.command: None} if cell.command else {})
    return [(_places(result, rows), why, _together(commands[why])) for why, rows in places.items()]


def _together(commands: Iterable[str]) -> tuple[str, ...]:
    """Make one command of those that differ only in the row.

    >>> _together(["soar reproduce foar --only zero", "soar reproduce foar --only rand", "soar data fetch x"])
    ('soar reproduce foar --only zero rand', 'soar data fetch x')
    """
    found: dict[str, list[str]] = {}
    for command in commands:
        start, only, row = command.partition(" --only ")
        found.setdefault(start + only, []).append(row)
    return tuple(start + " ".join(rows) for start, rows in found.items())


def _places(result: TableResult, rows: dict[str, list[str]]) -> str:
    """Name cells shortly: whole rows by their name alone, the whole table as that."""
    whole = {row for row, columns in rows.items() if len(columns) == len(result.rows[row])}
    if len(result.rows) > 1 and whole == set(result.rows):
        return "all rows"
    named = [row if row in whole else f"{row} ({', '.join(columns)})" for row, columns in rows.items()]
    return "; ".join(named)
