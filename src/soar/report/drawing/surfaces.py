"""Maps of the loss and of the margin on a plane through an image, on which gradient masking is visible."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from soar.report.drawing import svg
from soar.report.drawing.grids import DIVERGING, SEQUENTIAL, Grid, grid, shaded
from soar.report.drawing.scales import Axis, format_number, nice_ticks, tick_labels
from soar.report.drawing.svg import EDGE, FAINT, coordinate

Values = Literal["margin", "loss"]

WIDTH = 340.0
_LEFT, _SIDE = 46.0, 226.0  # where the map begins, and how wide and high it is
_BAR, _BAR_WIDTH = 282.0, 12.0
_PIXELS = 200
_LEAST_LOSS = 1.0  # a map of smaller losses would show rounding errors as if they were a landscape
# At this loss the true class has a probability below 1%, and it hardly matters how far below. Without an
# upper end, a network with small logits would look flat beside one with large logits.
_LARGEST_LOSS = 5.0
_NAMES: dict[Values, str] = {
    "loss": "loss (cross-entropy)",
    "margin": "margin: above 0 correct, below 0 misclassified",
}
# How the light outline and the dark line of each are drawn.
_EPS = {"light": 'stroke-width="1.4" opacity=".8"', "dark": 'stroke-width="1.4" stroke-dasharray="5 4"'}
_BOUNDARY = {"light": 'stroke-width="4.4"', "dark": 'stroke-width="2"'}
_END = {"light": 'stroke-width="4.8"', "dark": 'stroke-width="2.4"'}
_DOT = {"light": 'stroke-width="3.2"', "dark": 'stroke-width="0" fill="#111"'}
_IMAGE = "m-3.2 0a3.2 3.2 0 1 0 6.4 0a3.2 3.2 0 1 0-6.4 0z"
_CROSS = "m-4-4l8 8m0-8l-8 8"


@dataclass(frozen=True, kw_only=True)
class Surface:
    """The loss on a plane through an image: along the attack and along a random direction of equal size."""

    index: int
    label: int
    along: tuple[float, ...]
    """positions in units of eps, the same along both directions; 0 is the image, 1 the attack's end"""
    margin: tuple[tuple[float, ...], ...]
    """z_y - max_{i != y} z_i at each position: rows along the random direction, columns along the attack"""
    loss: tuple[tuple[float, ...], ...]
    """the cross-entropy at the same positions"""


def surface(drawn: Surface, *, values: Values, title: str) -> str:
    """Draw a map of the loss or of the margin around an image.

    The colors of the margin diverge at 0, so that they distinguish correct from misclassified; those of the
    loss begin at 0. On both, a line shows the decision boundary: a masked network has a loss that is flat
    around the image although that line is near.

    Args:
        drawn: the numbers
        values: which of them
        title: the heading, drawn above the map
    """
    margin, loss = (grid(drawn.along, rows) for rows in (drawn.margin, drawn.loss))
    numbers = margin if values == "margin" else loss
    parts, top = svg.heading(title, _NAMES[values], WIDTH)
    if len(drawn.along) < 2 or not numbers.shown.size:
        return svg.no_data(parts, top, WIDTH, title=title)
    ticks = nice_ticks(*_limits(numbers, values))
    colors = SEQUENTIAL if values == "loss" else DIVERGING
    x = Axis(low=drawn.along[0], high=drawn.along[-1], start=_LEFT, end=_LEFT + _SIDE)
    y = Axis(low=drawn.along[0], high=drawn.along[-1], start=top + _SIDE, end=top)
    # Rows of an image go down, those of the numbers go up.
    painted = shaded(numbers.enlarged(_PIXELS)[::-1], colors, ticks)
    parts += [_image(painted, _LEFT, top, _SIDE), *_axes(x, y), *_overlay(x, y, margin)]
    parts += _bar(float(numbers.shown.max()), colors, ticks, top)
    rows, bottom = svg.legend(_keys(), y.start + 58, WIDTH)
    summary = _summary(numbers, values)
    notes = svg.wrapped(summary, WIDTH - 2 * EDGE, 12, 3)
    parts += rows + [svg.text(EDGE, bottom + 14 + 17 * k, note, extra=FAINT) for k, note in enumerate(notes)]
    description = f"{_NAMES[values]}, on a plane through example {drawn.index}. {summary}"
    return svg.picture(WIDTH, bottom + 6 + 17 * len(notes), parts, title=title, description=description)


def _limits(numbers: Grid, values: Values) -> tuple[float, float]:
    """Choose the range of the colors: 0 gets the middle color of the margin, the first of the loss."""
    low, high = float(numbers.shown.min()), float(numbers.shown.max())
    if values == "loss":
        return min(0.0, low), max(_LEAST_LOSS, min(high, _LARGEST_LOSS))
    size = max(abs(low), abs(high)) or 1.0
    return -size, size


def _image(source: str, x: float, y: float, wide: float, extra: str = "") -> str:
    place = f'x="{coordinate(x)}" y="{coordinate(y)}" width="{coordinate(wide)}" height="{coordinate(_SIDE)}"'
    return (
        f'<image {place} preserveAspectRatio="none" href="{source}"{extra}/>'
        f'<rect {place} fill="none" stroke="currentColor" opacity=".5"/>'
    )


def _axes(x: Axis, y: Axis) -> list[str]:
    ticks = [one for one in nice_ticks(x.low, x.high) if x.low <= one <= x.high]
    parts = []
    for tick, name in zip(ticks, tick_labels(ticks), strict=True):
        parts.append(svg.text(x.at(tick), y.start + 16, name, anchor="middle"))
        parts.append(svg.text(x.start - 5, y.at(tick) + 4, name, anchor="end"))
    across, middle = (x.start + x.end) / 2, (y.start + y.end) / 2
    turned = f'transform="rotate(-90 13 {coordinate(middle)})" {FAINT}'
    parts.append(svg.text(across, y.start + 34, "along the attack (eps)", anchor="middle", extra=FAINT))
    parts.append(svg.text(13, middle, "along a random direction (eps)", anchor="middle", extra=turned))
    return parts


def _bar(largest: float, colors: Sequence[str], ticks: Sequence[float], top: float) -> list[str]:
    """Draw the color bar with its numbers; an end that stands for more than its number is marked."""
    painted = shaded(np.linspace(ticks[-1], ticks[0], 2 * _PIXELS)[:, None], colors, ticks)
    parts = [_image(painted, _BAR, top, _BAR_WIDTH, ' image-rendering="pixelated"')]
    names = tick_labels(ticks)
    if largest > ticks[-1]:
        names[-1] = "≥ " + names[-1]
    axis = Axis(low=ticks[0], high=ticks[-1], start=top + _SIDE, end=top)
    left = _BAR + _BAR_WIDTH + 4
    for tick, name in zip(ticks, names, strict=True):
        parts.append(svg.text(left, axis.at(tick) + 4, svg.shorten(name, WIDTH - left, 11), size=11))
    return parts


def _overlay(x: Axis, y: Axis, margin: Grid) -> list[str]:
    """Draw the eps box, the decision boundary, the image and the attack's end."""

    def place(column: float, row: float) -> str:
        return f"{coordinate(x.at(column))} {coordinate(y.at(row))}"

    box = "M" + "L".join(place(*corner) for corner in ((-1, -1), (1, -1), (1, 1), (-1, 1))) + "z"
    boundary = "".join(f"M{place(*start)}L{place(*end)}" for start, end in margin.zero_contour())
    return [
        _outlined(box, **_EPS),
        *([_outlined(boundary, **_BOUNDARY)] if boundary else []),
        _outlined(f"M{place(0, 0)}{_IMAGE}", **_DOT, title="the image"),
        _outlined(f"M{place(1, 0)}{_CROSS}", **_END, title="the attack's end"),
    ]


def _keys() -> list[tuple[str, str]]:
    return [
        ("image", _outlined(f"M13-4{_IMAGE}", **_DOT)),
        ("attack's end", _outlined(f"M13-4{_CROSS}", **_END)),
        ("decision boundary", _outlined("M1-4h24", **_BOUNDARY)),
        ("eps", _outlined("M6-10h14v12h-14z", **_EPS)),
    ]


def _outlined(path: str, light: str, dark: str, title: str = "") -> str:
    """Draw a path dark with a light outline, to be seen on any color and in both themes."""
    named = f"<title>{title}</title>" if title else ""
    return (
        f'<g fill="none" stroke-linecap="round" stroke-linejoin="round">{named}'
        f'<path d="{path}" stroke="#fff" {light}/><path d="{path}" stroke="#111" {dark}/></g>'
    )


def _summary(numbers: Grid, values: Values) -> str:
    """Return in words what the map shows at the image, at the attack's end and between them."""
    start, end = (format_number(numbers.at(x, 0), 3) for x in (0, 1))
    summary = f"{values.capitalize()} {start} at the image, {end} at the attack's end."
    if values == "loss":
        return summary
    change = numbers.first_below_zero()
    if change is None:
        return f"{summary} The prediction does not change."
    return f"{summary} " + (
        f"Misclassified from {change:.2g} eps on." if change else "The image is misclassified."
    )
