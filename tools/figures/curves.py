"""A table of the paper along a parameter as a chart: the paper's accuracy beside ours."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction

from tools.figures.bars import spread, standalone

from soar.experiments.result import Cell, Result
from soar.report.drawing.charts import WIDTH, line_chart
from soar.report.drawing.lines import ChartLine

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


def _curve(label: str, at: Mapping[str, float], cells: Mapping[str, Cell]) -> ChartLine:
    """Make a curve of cells by the value they belong to; a gap where nothing is known."""
    rows = []
    for value, cell in cells.items():
        low, high = spread(cell)
        rows.append((at[value], *(math.nan if one is None else one / 100 for one in (cell.ours, low, high))))
    x, y, low_, high_ = zip(*sorted(rows), strict=True) if rows else ((), (), (), ())
    known = any(math.isfinite(one) for one in low_)
    return ChartLine(label=label, x=x, y=y, low=low_ if known else (), high=high_ if known else ())
