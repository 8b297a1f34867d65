"""Line charts as SVG text, for light and dark pages, on screens, phones and paper."""

from __future__ import annotations

from collections.abc import Sequence

from soar.report.drawing import svg
from soar.report.drawing.lines import AREA, ChartLine, Plane, Point, area, describe, line, parts_of, swatch
from soar.report.drawing.svg import (
    EDGE,
    FAINT,
    Axis,
    LegendEntry,
    coordinate,
    format_number,
    is_shown,
    nice_ticks,
    widened,
)

PALETTE: dict[str, tuple[str, str]] = {
    "--series-1": ("#1f5fc4", "#7088ff"),
    "--series-2": ("#c47a26", "#f0882a"),
    "--series-3": ("#104022", "#4be8d2"),
    "--series-4": ("#6a1590", "#a565b8"),
    "--series-5": ("#8a5210", "#f3dc3c"),
    "--series-6": ("#2f97d8", "#58bcff"),
    "--series-7": ("#dd4c96", "#e04a3a"),
    "--series-8": ("#555b67", "#a2a5aa"),
}
"""CSS custom properties that the page defines: on a light ground, on a dark ground

Any two of them differ for readers with a color vision deficiency too, by lightness if not by hue.
"""

# A phone of 390 pixels shows this almost one to one, so that a font of size 12 can be read there.
WIDTH = 420.0
_PLOT = 190.0  # the height of the plot alone
_INSIDE = WIDTH - 2 * EDGE
_MARK = 'fill="none" stroke="currentColor" stroke-width="1.2" stroke-dasharray="3 3" opacity=".8"'

Ticks = Sequence[tuple[float, str]]


def line_chart(
    curves: Sequence[ChartLine],
    *,
    title: str,
    x_label: str,
    y_label: str,
    percent: bool = False,
    x_ticks: Ticks = (),
    marked: float | None = None,
    strong: str | None = None,
    band: str = "95% interval",
    between: str = "",
    by_run: bool = False,
) -> str:
    """Draw curves over one axis, with the legend below them, where it covers nothing.

    Numbers that are not finite leave a gap. The same input always gives the same text.

    Args:
        curves: what to draw
        title: the heading, drawn above the chart
        x_label: what x is
        y_label: what y is
        percent: whether y is a share, written in percent and drawn from 0 on
        x_ticks: numbers of the x axis and their labels; round numbers where none are given
        marked: the threat's eps, marked by a dashed line
        strong: the label of a curve that is drawn thicker, in the color of the text
        band: what lies between the lower and the upper end of a curve
        between: what the area between the first two curves is called, which is then shaded
        by_run: whether each curve is that of the run at its position, to be hidden with it
    """
    headed, top = svg.heading(title, y_label, WIDTH)
    lines = [parts_of(curve) for curve in curves]
    points = [point for parts in lines for part in parts for point in part]
    if not points:
        return svg.no_data(headed, top, WIDTH, title=title)

    x_ticks = [(x, name) for x, name in x_ticks if is_shown(x)]
    marks = [marked] if marked is not None and is_shown(marked) else []
    y_axis, y_ticks = _y_axis(points, top, percent=percent)
    margin = 3 + 2 * EDGE + max(svg.width(name) for _, name in y_ticks)
    x_axis, x_ticks = _x_axis([point.x for point in points] + marks, x_ticks, margin)
    plane = Plane(x_axis, y_axis, percent, dict(x_ticks), band)

    drawn = [*_rows(plane, y_ticks), *_columns(plane, x_ticks, x_label)]
    entries, description = [], [f"{y_label} against {x_label}."]
    if between and all(len(parts) == 1 for parts in lines[:2]):
        drawn.append(area(lines[0][0], lines[1][0], plane))
        description.append(f"Between {curves[0].label} and {curves[1].label}: {between}.")
    for k, (curve, parts) in enumerate(zip(curves, lines, strict=True)):
        is_strong = curve.label == strong
        # A curve without points keeps its color: those after it look the same in all charts.
        if parts:
            run = k if by_run else None
            entries.append(LegendEntry(curve.label, swatch(k, strong=is_strong), run))
            drawn.append(line(k, curve.label, parts, plane, strong=is_strong, run=run))
        description.append(describe(curve.label, parts, plane))
    for mark in marks:
        drawn.append(f'<path d="M{plane.at(mark, y_axis.low)}L{plane.at(mark, y_axis.high)}" {_MARK}/>')
        entries.append(LegendEntry(f"eps = {plane.x_name(mark)}", f'<path d="M13-11V3" {_MARK}/>'))
    if between:
        entries.append(LegendEntry(between, AREA))
    rows, bottom = svg.legend(entries, y_axis.start + 58, WIDTH)
    return svg.picture(WIDTH, bottom, headed + drawn + rows, title=title, description=" ".join(description))


def _y_axis(points: Sequence[Point], top: float, *, percent: bool) -> tuple[Axis, Ticks]:
    numbers = [one for point in points for one in (point.y, point.low, point.high)]
    if percent:
        numbers.append(0.0)
    low, high = min(numbers), max(numbers)
    ticks = nice_ticks(low, high)
    axis = Axis(low=min(low, ticks[0]), high=max(high, ticks[-1]), start=top + _PLOT, end=top)
    names = [f"{format_number(100 * tick)}%" if percent else format_number(tick) for tick in ticks]
    return axis, list(zip(ticks, names, strict=True))


def _x_axis(numbers: list[float], ticks: Ticks, margin: float) -> tuple[Axis, Ticks]:
    numbers = numbers + [x for x, _ in ticks]
    low, high = widened(min(numbers), max(numbers))
    if not ticks:
        ticks = [(x, format_number(x)) for x in nice_ticks(low, high) if low <= x <= high]
    return Axis(low=low, high=high, start=margin, end=WIDTH - 20), ticks


def _rows(plane: Plane, ticks: Ticks) -> list[str]:
    """Draw the grid lines of the y axis and its numbers."""
    left, right = coordinate(plane.x.start), coordinate(plane.x.end)
    parts = []
    for value, name in ticks:
        at = plane.y.at(value)
        strength = ".45" if at == plane.y.start else ".14"
        parts.append(
            f'<path d="M{left} {coordinate(at)}H{right}" stroke="currentColor" opacity="{strength}"/>'
        )
        parts.append(svg.text(plane.x.start - 7, at + 4, name, anchor="end"))
    return parts


def _columns(plane: Plane, ticks: Ticks, label: str) -> list[str]:
    """Draw the grid lines of the x axis, as many of its labels as fit, and what x is."""
    top, bottom = coordinate(plane.y.end), coordinate(plane.y.start + 4)
    parts = []
    free = 0.0
    for value, name in sorted(ticks):
        at = plane.x.at(value)
        parts.append(f'<path d="M{coordinate(at)} {top}V{bottom}" stroke="currentColor" opacity=".14"/>')
        name = svg.shorten(name, _INSIDE / 2)
        half = svg.width(name) / 2
        middle = min(max(at, half), WIDTH - half)
        if middle - half >= free:
            parts.append(svg.text(middle, plane.y.start + 18, name, anchor="middle"))
            free = middle + half + 6
    middle = (plane.x.start + plane.x.end) / 2
    label = svg.shorten(label, 2 * (WIDTH - middle))
    return [*parts, svg.text(middle, plane.y.start + 36, label, anchor="middle", extra=FAINT)]
