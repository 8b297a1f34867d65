"""Pictures of the loss and of the margin on a plane through an image, where a masked gradient is seen."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

import numpy as np

from soar.report.drawing.colors import DIVERGING, SEQUENTIAL, Shading, shaded
from soar.report.drawing.data import Surface
from soar.report.drawing.grids import Grid, grid
from soar.report.drawing.overlays import keys, overlay
from soar.report.drawing.scales import Axis, nice_ticks, tick_words
from soar.report.drawing.svg import (
    EDGE,
    FAINT,
    coordinate,
    heading,
    legend,
    nothing,
    picture,
    shorten,
    text,
    wrapped,
)

Values = Literal["margin", "loss"]
Limits = tuple[float, float]

WIDTH = 340.0
_LEFT, _SIDE = 46.0, 226.0  # where the map begins, and how wide and high it is
_BAR, _BAR_WIDTH = 282.0, 12.0
_PIXELS = 200
_BANDS = 20  # at most, with an edge at each number of the bar
_LEAST_LOSS = 1.0  # a map of smaller losses would show rounding as if it were a landscape
# At this loss the true class has less than 1%, and it hardly matters how much less. Without an end, the
# slopes of a network with small logits would look flat beside the cliffs of one with large logits.
_LARGEST_LOSS = 5.0
_NAMES: dict[Values, str] = {"loss": "loss (cross-entropy)", "margin": "margin: above 0 right, below 0 wrong"}


def surface(drawn: Surface, *, values: Values, title: str, limits: Limits | None = None) -> str:
    """Draw a map of the loss or of the margin around an image.

    The margin's colors have their turning point at 0, so that they tell right from wrong; those of the loss
    begin at 0. On both, a line shows where the answer changes: a masked network has a loss that is flat
    around the image although that line is near.

    Args:
        drawn: the numbers
        values: which of them
        title: the heading, drawn above the map
        limits: the range of the colors, from `shared_limits`, to compare several maps; numbers
            beyond take the last color
    """
    numbers, margin = _numbers(drawn, values), _numbers(drawn, "margin")
    parts, top = heading(title, _NAMES[values], WIDTH)
    if len(drawn.along) < 2 or not numbers.shown.size:
        return nothing(parts, top, WIDTH, title=title)
    ticks = nice_ticks(*_range(limits or shared_limits([drawn], values), values))
    colors = SEQUENTIAL if values == "loss" else DIVERGING
    shading = Shading(colors, ticks[0], ticks[-1], _BANDS - _BANDS % (len(ticks) - 1))
    x = Axis(low=drawn.along[0], high=drawn.along[-1], start=_LEFT, end=_LEFT + _SIDE)
    y = Axis(low=drawn.along[0], high=drawn.along[-1], start=top + _SIDE, end=top)
    # Rows of a picture go down, the numbers go up.
    painted = shaded(numbers.enlarged(_PIXELS)[::-1], shading)
    parts += [_image(painted, _LEFT, top, _SIDE), *_axes(x, y), *overlay(x, y, margin)]
    parts += _bar(shading, numbers, ticks, top)
    rows, bottom = legend(keys(), y.start + 58, WIDTH)
    said = _said(numbers, values)
    notes = wrapped(said, WIDTH - 2 * EDGE, 12, 3)
    parts += rows + [text(EDGE, bottom + 14 + 17 * k, note, extra=FAINT) for k, note in enumerate(notes)]
    description = f"{_NAMES[values]}, on a plane through example {drawn.index}. {said}"
    return picture(WIDTH, bottom + 6 + 17 * len(notes), parts, title=title, description=description)


def shared_limits(pictures: Iterable[Surface], values: Values) -> Limits:
    """Find a range of colors for several pictures: all their numbers and 0, but no loss above 5.

    Margins are best left to the range of each picture: their size is that of the logits, and says nothing.

    >>> one = Surface(index=0, label=0, along=(0, 1), margin=((1, -3), (9, 0)), loss=((2, 9), (2, 1)))
    >>> shared_limits([one], "margin"), shared_limits([one], "loss")
    ((-3.0, 9.0), (0.0, 5.0))
    """
    numbers = np.concatenate([np.zeros(1), *(_numbers(one, values).shown for one in pictures)])
    low, high = float(numbers.min()), float(numbers.max())
    return (low, min(high, _LARGEST_LOSS)) if values == "loss" else (low, high)


def _numbers(drawn: Surface, values: Values) -> Grid:
    return grid(drawn.along, drawn.margin if values == "margin" else drawn.loss)


def _range(limits: Limits, values: Values) -> Limits:
    """Lay the range so that 0 has the middle color of the margin, and the first one of the loss."""
    if values == "loss":
        return min(0.0, limits[0]), max(_LEAST_LOSS, limits[1])
    size = max(map(abs, limits)) or 1.0
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
    for tick, name in zip(ticks, tick_words(ticks), strict=True):
        parts.append(text(x.at(tick), y.start + 16, name, anchor="middle"))
        parts.append(text(x.start - 5, y.at(tick) + 4, name, anchor="end"))
    across, middle = (x.start + x.end) / 2, (y.start + y.end) / 2
    turned = f'transform="rotate(-90 13 {coordinate(middle)})" {FAINT}'
    parts.append(text(across, y.start + 34, "along the attack (eps)", anchor="middle", extra=FAINT))
    parts.append(text(13, middle, "along a random direction (eps)", anchor="middle", extra=turned))
    return parts


def _bar(shading: Shading, numbers: Grid, ticks: Sequence[float], top: float) -> list[str]:
    """Draw the colors with their numbers; an end that stands for more than its number says so."""
    levels = np.linspace(shading.high, shading.low, 2 * shading.bands + 1)[1::2]
    parts = [_image(shaded(levels[:, None], shading), _BAR, top, _BAR_WIDTH, ' image-rendering="pixelated"')]
    names = tick_words(ticks)
    if numbers.shown.max() > shading.high:
        names[-1] = "≥ " + names[-1]
    if numbers.shown.min() < shading.low:
        names[0] = "≤ " + names[0]
    axis = Axis(low=shading.low, high=shading.high, start=top + _SIDE, end=top)
    left = _BAR + _BAR_WIDTH + 4
    for tick, name in zip(ticks, names, strict=True):
        parts.append(text(left, axis.at(tick) + 4, shorten(name, WIDTH - left, 11), size=11))
    return parts


def _said(numbers: Grid, values: Values) -> str:
    """Say what the map shows where it matters."""
    start, end = (tick_words([float(f"{numbers.at(x, 0):.3g}")])[0] for x in (0, 1))
    said = f"{values.capitalize()} {start} at the image, {end} at the attack's end."
    if values == "loss":
        return said
    change = numbers.first_below()
    if change is None:
        return f"{said} The answer does not change."
    return f"{said} " + (
        f"The answer changes at {change:.2g} eps." if change else "The image is classified wrong."
    )
