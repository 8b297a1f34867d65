"""An image of a table of the paper: in every cell a bar of the paper's number and one of ours."""

from __future__ import annotations

from collections.abc import Sequence

from soar.experiments.result import Cell, Result
from soar.experiments.show.text import number, unit_of
from soar.report.drawing.charts import PALETTE
from soar.report.drawing.svg import (
    EDGE,
    FAINT,
    LegendEntry,
    coordinate,
    escaped,
    heading,
    legend,
    picture,
    text,
    width,
    wrapped,
)

_CELLS = 540.0  # the width of all cells together, as long as none is narrower or wider than these
_NARROW, _WIDE = 92.0, 200.0
_NUMBER = 40.0  # the part of a cell that its number takes; the bar has the rest
_LINE = 11.0  # the height of a bar with its number
_ROW = 32.0
_SIZE = 10.0  # of numbers
_MOST_COLUMNS = 7  # more would make the numbers too small on a page
# As an image of a page, an image sees neither the page's colors nor its theme.
_GROUND = ("#1f2328", "#e6edf3")


def bars(result: Result) -> str:
    """Draw a table as SVG: the paper's number above, ours with its interval below, for every cell.

    Percent is drawn from 0 to 100, other units to the column's largest number, and a list of quantities,
    whose only column is "value", to the row's.
    """
    columns = result.columns
    bands = -(-len(columns) // _MOST_COLUMNS) or 1
    size = -(-len(columns) // bands)
    left = EDGE + max((width(_label(row)) for row in result.rows), default=0.0) + 12
    cell = min(max(_CELLS / max(size, 1), _NARROW), _WIDE)
    wide = max(left + cell * size + EDGE, 420.0)
    parts, bottom = heading(result.name, f"{result.unit}, scale {result.scale}", wide)
    for k in range(bands):
        drawn, bottom = _band(result, columns[k * size : (k + 1) * size], left, bottom, cell)
        parts += drawn
    spread = "± one standard deviation" if result.seeds > 1 else "with the 95% interval"
    looks = [LegendEntry("paper", _swatch(paper=True)), LegendEntry(f"ours, {spread}", _swatch(paper=False))]
    rows, bottom = legend(looks, bottom + 14, wide)
    made = picture(wide, bottom, [*parts, *rows], title=result.name, description=_description(result))
    return standalone(made, wide)


def _band(
    result: Result, columns: Sequence[str], left: float, top: float, cell: float
) -> tuple[list[str], float]:
    """Draw some columns with their heads and all rows; return where they end."""
    parts = []
    heads = [wrapped(column.replace("@", " @"), cell - 4, 12, 3) for column in columns]
    top += 14 * max(map(len, heads), default=0)
    for k, rows in enumerate(heads):
        for n, words in enumerate(rows):
            at = top - 14 * (len(rows) - 1 - n)
            parts.append(text(left + k * cell, at, words, extra='font-weight="600"'))
    top += 10
    group = ""
    for row, cells in result.rows.items():
        own = row.rpartition(" / ")[0]
        if own != group:
            group = own
            parts.append(text(EDGE, top + 12, own, extra=FAINT))
            top += 20
        parts.append(text(EDGE, top + 15, _label(row)))
        for k, column in enumerate(columns):
            scale = (cell - _NUMBER) / _largest(result, row, column)
            own_unit = unit_of(result, column)
            parts += _cell(cells[column], left + k * cell, top, scale, own_unit, f"{row}, {column}")
        top += _ROW
    return parts, top + 12


def standalone(drawn: str, wide: float) -> str:
    """Return an image with colors for a light and a dark ground, so that it can be a file of its own."""
    light, dark = (";".join(f"{name}:{colors[k]}" for name, colors in PALETTE.items()) for k in range(2))
    style = (
        f"<style>svg{{color:{_GROUND[0]};{light}}}"
        f"@media (prefers-color-scheme:dark){{svg{{color:{_GROUND[1]};{dark}}}}}</style>"
    )
    opened, end, rest = drawn.partition(">")
    return opened.replace('width="100%"', f'width="{coordinate(wide)}"') + end + style + rest + "\n"


def _largest(result: Result, row: str, column: str) -> float:
    if result.unit == "percent":
        return 100.0
    shown = [result.rows[row]] if column == "value" else result.rows.values()
    cells = [cells[column] for cells in shown]
    numbers = [one for cell in cells for one in (cell.paper, cell.ours, cell.high) if one is not None]
    return max([abs(one) for one in numbers if one], default=1.0)


def _cell(cell: Cell, x: float, y: float, scale: float, unit: str, about: str) -> list[str]:
    parts = []
    for k, (name, value) in enumerate((("paper", cell.paper), ("ours", cell.ours))):
        at = y + 3 + k * (_LINE + 1)
        if value is None:
            if cell.paper is not None or name == "paper":
                parts.append(text(x, at + 9, "-", size=_SIZE, extra=FAINT))
            continue
        long = max(value, 0.0) * scale
        note = escaped(f"{about}, {name}: {number(value, unit)}")
        parts.append(
            f'<rect x="{coordinate(x)}" y="{coordinate(at)}" width="{coordinate(max(long, 0.5))}"'
            f' height="{coordinate(_LINE - 2)}" {_looks(name == "paper")}><title>{note}</title></rect>'
        )
        end = x + long
        low, high = spread(cell)
        if name == "ours" and low is not None and high is not None:
            parts.append(_whisker(x + max(low, 0.0) * scale, x + max(high, 0.0) * scale, at))
            end = x + max(high, 0.0) * scale
        parts.append(text(end + 4, at + 8.5, number(value, unit), size=_SIZE))
    return parts


def spread(cell: Cell) -> tuple[float | None, float | None]:
    """Return how far a number may be off: over training runs where there are several, else over images."""
    if cell.ours is not None and cell.std is not None:
        return cell.ours - cell.std, cell.ours + cell.std
    return cell.low, cell.high


def _whisker(low: float, high: float, at: float) -> str:
    middle = coordinate(at + (_LINE - 2) / 2)
    return (
        f'<path d="M{coordinate(low)} {middle}H{coordinate(high)}" stroke="currentColor" stroke-width="1.4"/>'
    )


def _looks(paper: bool) -> str:
    """The paper's bars are empty and ours are filled, so that they differ without colors too."""
    if paper:
        return 'fill="currentColor" fill-opacity=".12" stroke="currentColor" stroke-opacity=".6"'
    return 'fill="var(--series-1)"'


def _swatch(*, paper: bool) -> str:
    return f'<rect x="0" y="-9" width="26" height="9" {_looks(paper)}/>'


def _label(row: str) -> str:
    return row.rpartition(" / ")[2]


def _description(result: Result) -> str:
    sentences: list[str] = []
    for row, cells in result.rows.items():
        numbers = []
        for column, cell in cells.items():
            own = unit_of(result, column)
            numbers.append(f"{column} paper {_shown(cell.paper, own)}, ours {_shown(cell.ours, own)}")
        sentences.append(f"{row}: {'; '.join(numbers)}.")
    return " ".join(sentences)


def _shown(value: float | None, unit: str) -> str:
    return "unknown" if value is None else number(value, unit)
