"""A sweep as a table for the terminal and as a chart."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

from soar import text
from soar.report.drawing.charts import WIDTH, line_chart
from soar.report.drawing.lines import Curve
from soar.reproduce.grid import Grid, Sweep
from soar.reproduce.showing.figures import standalone
from soar.reproduce.sweep import Point, mean_and_std, name_of, selected

if TYPE_CHECKING:
    from rich.table import Table


def table(sweep: Sweep, found: Sequence[Point]) -> Table:
    """Make a table of all points; the selected one is marked."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    made = Table(box=box.SIMPLE_HEAD, title=f"sweep of {sweep.recipe}", title_justify="left", pad_edge=False)
    for field in sweep.grid:
        made.add_column(Text(field), justify="right")
    for heading in ("robust, validation", "clean, validation", "seeds"):
        made.add_column(heading, justify="right")
    made.add_column("")
    chosen = selected(found, sweep.seeds)
    for point in found:
        made.add_row(
            *map(Text, point.place.values()),
            percent(point.robust),
            percent(point.clean),
            f"{len(point.robust)} of {sweep.seeds}",
            Text(point.reason) if point.reason else "selected" if point is chosen else "",
            style="bold" if point is chosen else "",
        )
    return made


def verdict(sweep: Sweep, found: Sequence[Point]) -> str:
    """Say in words what was selected, by what, and which places cannot be told from it."""
    chosen = selected(found, sweep.seeds)
    if chosen is None:
        return "nothing was selected: no place of the grid has all its trainings"
    said = f"selected on validation robust accuracy: {chosen.name} ({percent(chosen.robust)})"
    spread = mean_and_std(chosen.robust)[1]
    if spread is None:
        return f"{said}; one seed does not tell how far chance decided, --seeds 3 does"
    low = mean_and_std(chosen.robust)[0] - spread
    near = [
        point.name
        for point in found
        if point is not chosen and point.robust and mean_and_std(point.robust)[0] >= low
    ]
    return f"{said}; within one standard deviation of it: {' and '.join(near) or 'nothing else'}"


def percent(shares: Sequence[float]) -> str:
    """Write the mean of shares in per cent, with the standard deviation where there is one.

    >>> percent([0.5, 0.52]), percent([0.5]), percent([])
    ('51.0 ± 1.4%', '50.0%', '-')
    """
    if not shares:
        return "-"
    mean, std = mean_and_std(shares)
    return text.percent(mean) if std is None else f"{100 * mean:.1f} ± {text.percent(std)}"


def chart(sweep: Sweep, found: Sequence[Point]) -> str:
    """Draw accuracy on validation along the field with the most values; other fields make more lines.

    The bands are one standard deviation over seeds to either side.
    """
    along = max(sweep.grid, key=lambda field: len(sweep.grid[field]))
    places, ticks = positions(sweep.grid[along])
    others = [field for field in sweep.grid if field != along]
    spread = f", mean ± standard deviation of {sweep.seeds} seeds" if sweep.seeds > 1 else ""
    curves = []
    for rest in _rests(sweep.grid, others):
        mine = [point for point in found if all(point.place[field] == rest[field] for field in others)]
        curves.append(_curve(name_of(rest) or "robust", mine, along, places, "robust"))
        if not others:
            curves.append(_curve("clean", mine, along, places, "clean"))
    drawn = line_chart(
        curves,
        title=f"{sweep.recipe}: {along}",
        x_label=along,
        y_label=f"{'robust accuracy' if others else 'accuracy'} on validation{spread}",
        percent=True,
        x_ticks=ticks,
        band="one standard deviation",
    )
    return standalone(drawn, WIDTH)


def _curve(label: str, found: Sequence[Point], along: str, positions: dict[str, float], which: str) -> Curve:
    rows = []
    for point in found:
        values = point.robust if which == "robust" else point.clean
        if values:
            mean, std = mean_and_std(values)
            rows.append((positions[point.place[along]], mean, mean - (std or 0.0), mean + (std or 0.0)))
    x, y, low, high = zip(*sorted(rows), strict=True) if rows else ((), (), (), ())
    return Curve(label=label, x=x, y=y, low=low, high=high)


def positions(values: Sequence[str]) -> tuple[dict[str, float], list[tuple[float, str]]]:
    """Place values on an axis: numbers where they belong, other words side by side.

    >>> positions(["1", "8/255"])[0]["8/255"] < 0.04, positions(["zero", "pgd-1"])[1]
    (True, [(0.0, 'zero'), (1.0, 'pgd-1')])
    """
    try:
        places = [float(Fraction(value)) for value in values]
    except (ValueError, ZeroDivisionError):
        places = [float(k) for k in range(len(values))]
    return dict(zip(values, places, strict=True)), list(zip(places, values, strict=True))


def _rests(grid: Grid, others: Sequence[str]) -> list[dict[str, str]]:
    import itertools

    return [
        dict(zip(others, values, strict=True)) for values in itertools.product(*(grid[one] for one in others))
    ]
