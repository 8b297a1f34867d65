"""A sweep of the paper as a picture: accuracy along the parameter, the paper's and ours."""

from __future__ import annotations

import math

from soar.report.drawing.charts import WIDTH, line_chart
from soar.report.drawing.lines import Curve
from soar.reproduce.showing.figures import spread, standalone
from soar.reproduce.showing.sweep_show import positions
from soar.reproduce.table_result import TableResult

_SHOWN = {"Standard": "clean", "PGD20": "PGD-20"}
"""columns of all sweeps that tell the whole story, the price and the gain, and what to call them"""


def curves(result: TableResult, *, row_key: str) -> str:
    """Draw a sweep as SVG: clean and robust accuracy against the parameter, ours with the interval.

    Args:
        result: a table whose rows are values of one parameter
        row_key: what the parameter is called
    """
    at, ticks = positions(list(result.rows))
    rows = sorted(result.rows.items(), key=lambda row: at[row[0]])
    x = tuple(at[name] for name, _ in rows)
    drawn = []
    for column, called in _SHOWN.items():
        cells = [row[column] for _, row in rows]
        bounds = [spread(cell) for cell in cells]
        ours, low, high = (
            tuple(map(_share, numbers))
            for numbers in ([cell.ours for cell in cells], *zip(*bounds, strict=True))
        )
        drawn.append(Curve(label=f"{called}, ours", x=x, y=ours, low=low, high=high))
        drawn.append(Curve(label=f"{called}, paper", x=x, y=tuple(_share(cell.paper) for cell in cells)))
    chart = line_chart(
        drawn,
        title=f"{result.table}: the choice of {row_key}",
        x_label=row_key,
        y_label=f"accuracy on test images, scale {result.scale}",
        percent=True,
        x_ticks=ticks,
        band="one standard deviation" if result.seeds > 1 else "95 % interval",
    )
    return standalone(chart, WIDTH)


def _share(percent: float | None) -> float:
    """Give a share, and no number where nothing is known, which leaves a gap."""
    return math.nan if percent is None else percent / 100
