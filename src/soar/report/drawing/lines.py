"""One curve of a chart: its points, how it looks in color and in black and white, and its description."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import NamedTuple

from soar import text
from soar.report.drawing.svg import Axis, coordinate, escaped, format_number, is_shown

# Colors distinguish curves for most readers on most screens; dashes and markers for all, on paper too.
# Four and five of them: a pair comes again only after 20 curves.
_DASHES = ("", "7 3", "2 3", "9 3 2 3")
_MARKERS = (
    "m-3 0a3 3 0 1 0 6 0a3 3 0 1 0-6 0z",  # circle
    "m-2.7-2.7h5.4v5.4h-5.4z",  # square
    "m0-3.6l3.5 6.2h-7z",  # triangle
    "m0-4l4 4l-4 4l-4-4z",  # diamond
    "m-2.6-2.6l5.2 5.2m0-5.2l-5.2 5.2",  # cross
)
_COLORS = 8
_SHADE = 'fill="currentColor" opacity=".16"'
AREA = f'<path d="M0-10h26v12h-26z" {_SHADE}/>'
"""a piece of a shaded area for the legend"""
_MOST_MARKERS = 40  # a curve with more points has one on every second, third, ... point
_DESCRIBED = 8  # a curve with more points is summarized for screen readers


@dataclass(frozen=True, kw_only=True)
class ChartLine:
    """The values of a curve, with an interval at each point where there is one."""

    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()


class Point(NamedTuple):
    """A point that can be drawn."""

    x: float
    y: float
    low: float
    """lower end of its interval, or y where there is none"""
    high: float


@dataclass(frozen=True)
class Plane:
    """What all curves of a chart share: two axes and how their numbers are written."""

    x: Axis
    y: Axis
    percent: bool
    names: Mapping[float, str]
    """what to write for numbers of the x axis that have a name"""
    band: str = "95% interval"
    """what lies between the lower and the upper end of a point"""

    def at(self, x: float, y: float) -> str:
        """Return the coordinates of a pair of numbers."""
        return f"{coordinate(self.x.at(x))} {coordinate(self.y.at(y))}"

    def x_name(self, x: float) -> str:
        """Return the name of a number of the x axis, or the number where it has none."""
        return self.names.get(x) or format_number(x, 6)

    def describe(self, point: Point) -> str:
        """Return a point in words."""
        y, low, high = (
            text.percent(one) if self.percent else format_number(one, 6)
            for one in (point.y, point.low, point.high)
        )
        between = f" ({self.band} {low} to {high})" if point.low < point.high else ""
        return f"{y}{between} at {self.x_name(point.x)}"


def parts_of(curve: ChartLine) -> list[list[Point]]:
    """Return the points of a curve that can be drawn, in parts; the others leave a gap between two parts.

    >>> curve = ChartLine(label="", x=(0, 1, 2, 3), y=(5.0, float("nan"), 7.0, 8.0))
    >>> [[(point.x, point.y) for point in part] for part in parts_of(curve)]
    [[(0, 5.0)], [(2, 7.0), (3, 8.0)]]
    """
    parts: list[list[Point]] = [[]]
    for k, (x, y) in enumerate(zip(curve.x, curve.y, strict=True)):
        if is_shown(x) and is_shown(y):
            low, high = (e[k] if k < len(e) and is_shown(e[k]) else y for e in (curve.low, curve.high))
            parts[-1].append(Point(x, y, low, high))
        else:
            parts.append([])
    return [part for part in parts if part]


def line(
    k: int, label: str, parts: list[list[Point]], plane: Plane, *, strong: bool, run: int | None = None
) -> str:
    """Draw a curve with its intervals, and markers that show their numbers when pointed at.

    Args:
        k: the number of the curve in its chart, from 0 on
        label: its name
        parts: its points, from `parts_of`
        plane: where they go
        strong: whether to draw it thicker, in the color of the text
        run: the position of the run that it belongs to, with which it is hidden
    """
    points = list(chain(*parts))
    stride = -(-len(points) // _MOST_MARKERS)
    drawn = [_band(part, plane) for part in parts if any(point.low < point.high for point in part)]
    curve = "".join(_path(plane.at(p.x, p.y) for p in part) for part in parts if len(part) > 1)
    if curve:
        drawn.append(f'<path d="{curve}" {_stroke(k, strong)}/>')
    alone = {part[0] for part in parts if len(part) == 1}
    for n, point in enumerate(points):
        if n % stride == 0 or point in alone:
            title = escaped(f"{label}: {plane.describe(point)}")
            drawn.append(f'<path d="M{plane.at(point.x, point.y)}{_marker(k)}"><title>{title}</title></path>')
    of_run = "" if run is None else f' data-run="{run}"'
    return f'<g{of_run}{_color(k, strong)} fill="currentColor" stroke-linejoin="round">{"".join(drawn)}</g>'


def series(k: int) -> str:
    """Return the color of the curve at a position, as CSS.

    >>> series(0), series(8)
    ('var(--series-1)', 'var(--series-1)')
    """
    return f"var(--series-{k % _COLORS + 1})"


def swatch(k: int, *, strong: bool) -> str:
    """Draw a short piece of a curve for the legend: 26 wide, on a base line for text at 0."""
    looks = f'<path d="M0-4h26" {_stroke(k, strong)}/><path d="M13-4{_marker(k)}"/>'
    return f'<g{_color(k, strong)} fill="currentColor">{looks}</g>'


def describe(label: str, parts: list[list[Point]], plane: Plane) -> str:
    """Return a curve in words.

    >>> axis = Axis(low=0, high=1, start=0, end=1)
    >>> curve = ChartLine(label="", x=(0.0, 0.5), y=(0.9, 0.25))
    >>> describe("PGD", parts_of(curve), Plane(axis, axis, True, {0.5: "1/2"}))
    'PGD: 90.0% at 0, 25.0% at 1/2.'
    """
    points = list(chain(*parts))
    if not points:
        return f"{label}: no numbers."
    if len(points) <= _DESCRIBED:
        return f"{label}: {', '.join(map(plane.describe, points))}."
    return f"{label}: begins with {plane.describe(points[0])}, ends with {plane.describe(points[-1])}."


def _band(part: list[Point], plane: Plane) -> str:
    """Fill the area between the ends of the intervals; a single point gets a bar."""
    if len(part) == 1:
        p = part[0]
        return f'<path d="{_path((plane.at(p.x, p.low), plane.at(p.x, p.high)))}" stroke="currentColor"/>'
    there = [plane.at(p.x, p.high) for p in part]
    back = [plane.at(p.x, p.low) for p in reversed(part)]
    return f'<path d="{_path(there + back)}Z" opacity=".14"/>'


def area(first: Sequence[Point], second: Sequence[Point], plane: Plane) -> str:
    """Shade what lies between two curves, as far as both reach.

    Args:
        first: the points of one
        second: the points of the other
        plane: where they go
    """
    end = min(first[-1].x, second[-1].x)
    there, back = (
        [(p.x, p.y) for p in part if p.x < end] + [(end, _at(part, end))] for part in (first, second)
    )
    return f'<path d="{_path(plane.at(*one) for one in (*there, *reversed(back)))}Z" {_SHADE}/>'


def _at(part: Sequence[Point], x: float) -> float:
    """Return the height of a curve at a place on or between its points."""
    for one, other in pairwise(part):
        if one.x <= x <= other.x:
            share = (x - one.x) / (other.x - one.x)
            return one.y + share * (other.y - one.y)
    return part[-1].y


def _path(places: Iterable[str]) -> str:
    return "M" + "L".join(places)


def _color(k: int, strong: bool) -> str:
    return "" if strong else f' style="color:{series(k)}"'


def _stroke(k: int, strong: bool) -> str:
    dashes = _DASHES[k % len(_DASHES)]
    dashed = f' stroke-dasharray="{dashes}"' if dashes and not strong else ""
    return f'fill="none" stroke="currentColor" stroke-width="{3 if strong else 1.8}"{dashed}'


def _marker(k: int) -> str:
    return f'{_MARKERS[k % len(_MARKERS)]}" stroke="currentColor" stroke-width="1.2'
