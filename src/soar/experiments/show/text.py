"""A table as lines of text, broken to a width; where the paper has numbers, they stand beside ours."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from soar.experiments.result import SECONDS, Cell, Result
from soar.text import duration

NOTHING = "-"
COUNT = "count"
_HEADS = ("paper", "ours", "diff")
_GAP = "   "
_NARROWEST = 20
_ROUNDING = 1e-12  # a difference this small is none


@dataclass(frozen=True)
class Block:
    """One column of a table: the paper's number, ours and the difference, or ours alone, as text."""

    name: str
    texts: tuple[tuple[str, ...], ...]

    @property
    def heads(self) -> tuple[str, ...]:
        """The second line of its head; a single number needs none."""
        return _HEADS if self.texts and len(self.texts[0]) == len(_HEADS) else ("",)

    @property
    def widths(self) -> list[int]:
        """The width of each part."""
        return [max(len(text[k]) for text in (self.heads, *self.texts)) for k in range(len(self.heads))]

    @property
    def width(self) -> int:
        """The width of all of it."""
        return max(sum(self.widths) + len(self.heads) - 1, len(self.name))

    def line(self, texts: Sequence[str]) -> str:
        """Return the heads or a row, aligned to the right."""
        joined = " ".join(text.rjust(width) for text, width in zip(texts, self.widths, strict=True))
        return joined.rjust(self.width)


def lines(result: Result, width: int) -> list[list[tuple[str, str]]]:
    """Lay a table out in as few parts as the width allows.

    Args:
        result: the table
        width: how many characters fit into a line

    Returns:
        The lines of each part, the first two of them heads, each with the name of its row where it has one.
    """
    names = result.columns
    units = {name: unit_of(result, name) for name in names}
    shown = texts if result.has_paper else ours_alone
    blocks = [Block(n, tuple(shown(cells[n], units[n]) for cells in result.rows.values())) for n in names]
    # A long name is broken, so that there is room for a column beside it.
    most = max(width - max((block.width for block in blocks), default=0) - len(_GAP), _NARROWEST)
    label = min(max((len(one) for one in [result.row_key, *map(_label, result.rows)]), default=0), most)
    return [_part(result, part, label) for part in _parts(blocks, width - label)]


def _parts(blocks: Sequence[Block], width: int) -> list[list[Block]]:
    """Divide blocks into as few parts as fit, each with about as many."""
    parts: list[list[Block]] = []
    for count in range(1, len(blocks) + 1):
        size = -(-len(blocks) // count)
        parts = [list(blocks[k : k + size]) for k in range(0, len(blocks), size)]
        if all(sum(len(_GAP) + block.width for block in part) <= width for part in parts):
            break
    return parts


def _part(result: Result, blocks: Sequence[Block], label: int) -> list[tuple[str, str]]:
    def line(name: str, columns: Sequence[str]) -> str:
        return _GAP.join([name.ljust(label), *columns]).rstrip()

    if result.has_paper:
        heads = [line("", [block.name.center(block.width) for block in blocks])]
        heads.append(line(result.row_key, [block.line(block.heads) for block in blocks]))
    else:
        heads = [line(result.row_key, [block.name.rjust(block.width) for block in blocks]), ""]
    made = [("", head) for head in heads]
    group = ""
    for k, row in enumerate(result.rows):
        own = row.rpartition(" / ")[0]
        if own != group:
            group = own
            made.append(("", own))
        *before, last = textwrap.wrap(_label(row), label, subsequent_indent="  ") or [""]
        made += [
            (row, one) for one in [*before, line(last, [block.line(block.texts[k]) for block in blocks])]
        ]
    return made


def _label(row: str) -> str:
    """Return the name of a row below that of its group."""
    group, _, name = row.rpartition(" / ")
    return f"  {name}" if group else name


def texts(cell: Cell, unit: str) -> tuple[str, ...]:
    """Return the paper's number, ours and the difference as text.

    >>> texts(Cell(paper=56.06, values=(41.2, 42.2)), "percent")
    ('56.06', '41.70±0.71', '-14.36')
    """
    return (
        with_std(cell.paper, cell.paper_std, unit),
        *ours_alone(cell, unit),
        NOTHING if cell.difference is None else number(cell.difference, unit, sign=True),
    )


def ours_alone(cell: Cell, unit: str) -> tuple[str, ...]:
    """Return our number as text."""
    return (with_std(cell.ours, cell.std, unit),)


def with_std(value: float | None, std: float | None, unit: str) -> str:
    """Return a mean as text, with its standard deviation where there is one.

    >>> with_std(42.861, 0.214, "percent"), with_std(None, None, "percent"), with_std(90, None, "seconds")
    ('42.86±0.21', '-', '1:30 min')
    """
    if value is None:
        return NOTHING
    return number(value, unit) + ("" if std is None else f"±{number(std, unit)}")


def unit_of(result: Result, column: str) -> str:
    """Return the unit of a column: its own or the table's, but counts where all numbers are whole.

    >>> rows = {"SOAR": {"forward": Cell(paper=3, values=(3.0,)), "minutes": Cell(paper=26.5)}}
    >>> made = Result(name="cost", unit="passes, minutes", rows=rows)
    >>> unit_of(made, "forward"), unit_of(made, "minutes")
    ('count', 'passes, minutes')
    """
    unit = result.units.get(column, result.unit)
    numbers = [one for cells in result.rows.values() for one in (cells[column].paper, *cells[column].values)]
    known = [one for one in numbers if one is not None]
    whole = bool(known) and all(one == round(one) for one in known)
    return COUNT if whole and unit not in ("percent", SECONDS) else unit


def number(value: float, unit: str, *, sign: bool = False) -> str:
    """Return a number as its unit asks: two decimals, fewer digits for the very large and very small.

    >>> number(56.0625, "percent"), number(-3.2, "percent", sign=True), number(0.00123, "loss")
    ('56.06', '-3.20', '0.00123')
    >>> number(12345.6, "minutes"), number(-2.2e-16, "ratio", sign=True), number(11.0, "count")
    ('12346', '+0.00', '11')
    """
    plus = "+" if sign else ""
    value = 0.0 if abs(value) < _ROUNDING else value
    if unit == SECONDS:
        return duration(value)
    if unit == COUNT:
        return f"{value:{plus}g}"
    if unit == "percent" or value == 0 or 0.1 <= abs(value) < 1000:
        return f"{value:{plus}.2f}"
    return f"{value:{plus}.0f}" if 1000 <= abs(value) < 1e6 else f"{value:{plus}.3g}"


def missing(result: Result) -> list[tuple[str, str, tuple[str, ...]]]:
    """Return which cells were not measured, why, and what would do it; cells with one reason together."""
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


def _places(result: Result, rows: dict[str, list[str]]) -> str:
    """Return short names of cells: whole rows by their name alone, the whole table as that."""
    whole = {row for row, columns in rows.items() if len(columns) == len(result.rows[row])}
    if len(result.rows) > 1 and whole == set(result.rows):
        return "all rows"
    named = [row if row in whole else f"{row} ({', '.join(columns)})" for row, columns in rows.items()]
    return "; ".join(named)
