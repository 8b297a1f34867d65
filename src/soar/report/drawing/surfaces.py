"""Maps of the loss and of the margin on a plane through an image, on which gradient masking is visible."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from soar.report.drawing import svg
from soar.report.drawing.grids import DIVERGING, SEQUENTIAL, Grid, Shading, grid
from soar.report.drawing.scales import Axis, format_number, nice_ticks, tick_labels
from soar.report.drawing.svg import EDGE, FAINT, coordinate

Values = Literal["margin", "loss"]

WIDTH = 340.0
_LEFT, _SIDE = 46.0, 226.0  # where the map begins, and how wide and high it is
_BAR, _BAR_WIDTH = 282.0, 12.0
_PIXELS = 200
_BANDS = 20  # at most, with an edge at each number of the bar
_LEAST_LOSS = 1.0  # a map of smaller losses would show rounding errors as if they were a landscape
# At this loss the true class has a probability below 1%, and it hardly matters how far below. Without an
# upper end, a network with small logits would look flat beside one with large logits.
_LARGEST_LOSS = 5.0
_NAMES: dict[Values, str] = {
    "loss": "loss (cross-entropy)",
    "margin": "margin: above 0 correct, below 0 misclassified",
}
_IMAGE = "m-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0z"
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
    shading = Shading(colors, ticks[0], ticks[-1], _BANDS - _BANDS % (len(ticks) - 1))
    x = Axis(low=drawn.along[0], high=drawn.along[-1], start=_LEFT, end=_LEFT + _SIDE)
    y = Axis(low=drawn.along[0], high=drawn.along[-1], start=top + _SIDE, end=top)
    # Rows of a picture go down, those of the numbers go up.
    painted = shading.picture(numbers.enlarged(_PIXELS)[::-1])
    parts += [_image(painted, _LEFT, top, _SIDE), *_axes(x, y), *_overlay(x, y, margin)]
    parts += _bar(shading, numbers, ticks, top)
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


def _bar(shading: Shading, numbers: Grid, ticks: Sequence[float], top: float) -> list[str]:
    """Draw the color bar with its numbers; an end that stands for more than its number is marked."""
    levels = np.linspace(shading.high, shading.low, 2 * shading.bands + 1)[1::2]
    painted = shading.picture(levels[:, None])
    parts = [_image(painted, _BAR, top, _BAR_WIDTH, ' image-rendering="pixelated"')]
    names = tick_labels(ticks)
    if numbers.shown.max() > shading.high:
        names[-1] = "≥ " + names[-1]
    axis = Axis(low=shading.low, high=shading.high, start=top + _SIDE, end=top)
    left = _BAR + _BAR_WIDTH + 4
    for tick, name in zip(ticks, names, strict=True):
        parts.append(svg.text(left, axis.at(tick) + 4, svg.shorten(name, WIDTH - left, 11), size=11))
    return parts


def _overlay(x: Axis, y: Axis, margin: Grid) -> list[str]:
    """Draw the eps box, the decision boundary, the image and the attack's end.

    All of it is dark with a light outline, to be seen on any color and in both themes.
    """

    def place(column: float, row: float) -> str:
        return f"{coordinate(x.at(column))} {coordinate(y.at(row))}"

    parts = [_box("M" + "L".join(place(*one) for one in ((-1, -1), (1, -1), (1, 1), (-1, 1))) + "z")]
    boundary = "".join(f"M{place(*start)}L{place(*end)}" for start, end in margin.zero_contour())
    if boundary:
        parts.append(_stroke(boundary, 2))
    parts.append(_dot(f"M{place(0, 0)}{_IMAGE}", "the image"))
    parts.append(_stroke(f"M{place(1, 0)}{_CROSS}", 2.4, "the attack's end"))
    return parts


def _keys() -> list[tuple[str, str]]:
    return [
        ("image", _dot(f"M13-4{_IMAGE}")),
        ("attack's end", _stroke(f"M13-4{_CROSS}", 2.4)),
        ("decision boundary", _stroke("M1-4h24", 2)),
        ("eps", _box("M6-10h14v12h-14z")),
    ]


def _dot(path: str, name: str = "") -> str:
    return f'<path d="{path}" fill="#111" stroke="#fff" stroke-width="1.6">{_title(name)}</path>'


def _stroke(path: str, thick: float, name: str = "") -> str:
    return (
        f'<g fill="none" stroke-linecap="round" stroke-linejoin="round">{_title(name)}'
        f'<path d="{path}" stroke="#fff" stroke-width="{thick + 2.4:g}"/>'
        f'<path d="{path}" stroke="#111" stroke-width="{thick:g}"/></g>'
    )


def _box(path: str) -> str:
    return (
        f'<g fill="none" stroke-width="1.4"><path d="{path}" stroke="#fff" opacity=".8"/>'
        f'<path d="{path}" stroke="#111" stroke-dasharray="5 4"/></g>'
    )


def _title(name: str) -> str:
    return f"<title>{name}</title>" if name else ""


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
        f"The prediction changes at {change:.2g} eps." if change else "The image is misclassified."
    )
