"""Accuracy along a parameter as a chart: a sweep of the paper beside ours, or a sweep of one's own."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from fractions import Fraction

from soar.experiments.result import Cell, Result
from soar.experiments.show.figures import spread, standalone
from soar.report.drawing.charts import WIDTH, line_chart
from soar.report.drawing.lines import Curve

_SHOWN = {"Standard": "clean", "PGD20": "PGD-20"}
"""columns of the paper's sweeps that tell the whole story, the price and the gain, and what to call them"""


def curves(result: Result) -> str:
    """Draw a sweep of the paper as SVG: clean and robust accuracy against the parameter, ours with intervals.

    Args:
        result: a table whose rows are values of one parameter
    """
    drawn = []
    at, ticks = positions(list(result.rows))
    for column, called in _SHOWN.items():
        cells = {name: row[column] for name, row in result.rows.items()}
        drawn.append(_curve(f"{called}, ours", at, cells))
        theirs = {name: Cell(values=() if one.paper is None else (one.paper,)) for name, one in cells.items()}
        drawn.append(_curve(f"{called}, paper", at, theirs))
    chart = line_chart(
        drawn,
        title=f"{result.name}: the choice of {result.row_key}",
        x_label=result.row_key,
        y_label=f"accuracy on test images, scale {result.scale}",
        percent=True,
        x_ticks=ticks,
        band="one standard deviation" if result.seeds > 1 else "95% interval",
    )
    return standalone(chart, WIDTH)


def sweep_chart(
    result: Result, grid: Mapping[str, Sequence[str]], places: Mapping[str, Mapping[str, str]]
) -> str:
    """Draw accuracy on validation along the field with the most values; other fields make more curves.

    Args:
        result: the table of a sweep, with the columns robust and clean
        grid: values by field
        places: the value of each field by row
    """
    along = max(grid, key=lambda field: len(grid[field]))
    at, ticks = positions(grid[along])
    others = [field for field in grid if field != along]
    spread_of = f", mean ± standard deviation of {result.seeds} seeds" if result.seeds > 1 else ""
    drawn = []
    for values in itertools.product(*(grid[field] for field in others)):
        fixed = dict(zip(others, values, strict=True))
        mine = [row for row, place in places.items() if all(place[one] == fixed[one] for one in others)]
        label = ", ".join(f"{field}={value}" for field, value in fixed.items())
        for column in ("robust",) if others else ("robust", "clean"):
            cells = {places[row][along]: result.rows[row][column] for row in mine}
            drawn.append(_curve(label or column, at, cells))
    chart = line_chart(
        drawn,
        title=f"{result.name}: {along}",
        x_label=along,
        y_label=f"{'robust accuracy' if others else 'accuracy'} on validation{spread_of}",
        percent=True,
        x_ticks=ticks,
        band="one standard deviation",
    )
    return standalone(chart, WIDTH)


def positions(values: Sequence[str]) -> tuple[dict[str, float], list[tuple[float, str]]]:
    """Return where values lie on an axis, numbers to scale and other words side by side, and its ticks.

    >>> positions(["1", "8/255"])[0]["8/255"] < 0.04, positions(["zero", "pgd-1"])[1]
    (True, [(0.0, 'zero'), (1.0, 'pgd-1')])
    """
    try:
        places = [float(Fraction(value)) for value in values]
    except (ValueError, ZeroDivisionError):
        places = [float(k) for k in range(len(values))]
    return dict(zip(values, places, strict=True)), list(zip(places, values, strict=True))


def _curve(label: str, at: Mapping[str, float], cells: Mapping[str, Cell]) -> Curve:
    """Make a curve of cells by the value they belong to; a gap where nothing is known."""
    rows = []
    for value, cell in cells.items():
        low, high = spread(cell)
        rows.append((at[value], *(math.nan if one is None else one / 100 for one in (cell.ours, low, high))))
    x, y, low_, high_ = zip(*sorted(rows), strict=True) if rows else ((), (), (), ())
    known = any(math.isfinite(one) for one in low_)
    return Curve(label=label, x=x, y=y, low=low_ if known else (), high=high_ if known else ())
