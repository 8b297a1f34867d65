"""A table as lines of text, broken to a width; where the paper has numbers, they stand beside ours."""

from __future__ import annotations

from collections.abc import Iterable

from soar.experiments.result import SECONDS, Cell, Result
from soar.text import duration

NOTHING = "-"
COUNT = "count"
_HEADS = ("paper", "ours", "diff")
_GAP = "   "
_ROUNDING = 1e-12  # a difference this small is none


def lines(result: Result, width: int) -> list[list[str]]:
    """Lay a table out in as few parts as the width allows, each with about as many columns.

    Args:
        result: the table
        width: how many characters fit into a line

    Returns:
        The lines of each part: two of heads, then one for each row.
    """
    names = ["", result.row_key] if result.has_paper else [result.row_key, ""]
    names += result.rows
    label = max(map(len, names))
    columns = [_column(result, name) for name in result.columns]
    parts: list[list[list[str]]] = []
    for count in range(1, len(columns) + 1):
        size = -(-len(columns) // count)
        parts = [columns[k : k + size] for k in range(0, len(columns), size)]
        if all(label + sum(len(_GAP) + len(column[0]) for column in part) <= width for part in parts):
            break
    return [
        [_GAP.join([name.ljust(label), *cells]).rstrip() for name, *cells in zip(names, *part, strict=True)]
        for part in parts
    ]


def _column(result: Result, name: str) -> list[str]:
    """Return a column from its two heads down, every line equally wide."""
    unit, cells = unit_of(result, name), [row[name] for row in result.rows.values()]
    if not result.has_paper:
        made = [name, "", *(ours_alone(cell, unit)[0] for cell in cells)]
        return [one.rjust(max(map(len, made))) for one in made]
    grid = [_HEADS, *(texts(cell, unit) for cell in cells)]
    widths = [max(map(len, part)) for part in zip(*grid, strict=True)]
    made = [" ".join(map(str.rjust, one, widths)) for one in grid]
    wide = max(len(name), len(made[0]))
    return [name.center(wide), *(one.rjust(wide) for one in made)]


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
