"""A sweep of the paper beside ours as a chart: accuracy along a parameter."""

from __future__ import annotations

import math
from collections.abc import Mapping

from soar.experiments.result import Cell, Result
from soar.report.drawing.charts import PALETTE, WIDTH, line_chart
from soar.report.drawing.lines import Curve
from soar.report.drawing.svg import coordinate

_SHOWN = {"Standard": "clean", "PGD20": "PGD-20"}
"""columns of the paper's sweeps that tell the whole story, the price and the gain, and what to call them"""
# As an image of a page, a chart sees neither the page's colors nor its theme.
_GROUND = ("#1f2328", "#e6edf3")


def curves(result: Result) -> str:
    """Draw a sweep of the paper as SVG: clean and robust accuracy against the parameter, ours with intervals.

    Args:
        result: a table whose rows are values of one parameter
    """
    drawn = []
    for column, called in _SHOWN.items():
        cells = {name: row[column] for name, row in result.rows.items()}
        drawn.append(_curve(f"{called}, ours", cells))
        theirs = {name: Cell(values=() if one.paper is None else (one.paper,)) for name, one in cells.items()}
        drawn.append(_curve(f"{called}, paper", theirs))
    chart = line_chart(
        drawn,
        title=f"{result.name}: the choice of {result.row_key}",
        x_label=result.row_key,
        y_label=f"accuracy on test images, scale {result.scale}",
        percent=True,
        x_ticks=[(float(name), name) for name in result.rows],
        band="one standard deviation" if result.seeds > 1 else "95% interval",
    )
    return _standalone(chart)


def _curve(label: str, cells: Mapping[str, Cell]) -> Curve:
    """Make a curve of cells by the value they belong to; a gap where nothing is known."""
    rows = []
    for value, cell in cells.items():
        # Over training runs where there are several, else over images.
        low, high = cell.low, cell.high
        if cell.ours is not None and cell.std is not None:
            low, high = cell.ours - cell.std, cell.ours + cell.std
        rows.append(
            (float(value), *(math.nan if one is None else one / 100 for one in (cell.ours, low, high)))
        )
    x, y, low_, high_ = zip(*sorted(rows), strict=True) if rows else ((), (), (), ())
    known = any(math.isfinite(one) for one in low_)
    return Curve(label=label, x=x, y=y, low=low_ if known else (), high=high_ if known else ())


def _standalone(drawn: str) -> str:
    """Return an image with colors for a light and a dark ground, so that it can be a file of its own."""
    light, dark = (";".join(f"{name}:{colors[k]}" for name, colors in PALETTE.items()) for k in range(2))
    style = (
        f"<style>svg{{color:{_GROUND[0]};{light}}}"
        f"@media (prefers-color-scheme:dark){{svg{{color:{_GROUND[1]};{dark}}}}}</style>"
    )
    opened, end, rest = drawn.partition(">")
    return opened.replace('width="100%"', f'width="{coordinate(WIDTH)}"') + end + style + rest + "\n"
