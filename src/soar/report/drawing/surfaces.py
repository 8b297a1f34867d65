"""Maps of the loss and of the margin on a plane through an image, on which gradient masking is visible."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageFilter

from soar.report.drawing import png, svg
from soar.report.drawing.svg import (
    EDGE,
    FAINT,
    Axis,
    LegendEntry,
    coordinate,
    format_number,
    is_shown,
    nice_ticks,
)

Values = Literal["margin", "loss"]
Numbers = NDArray[np.float64]

# Both maps have even steps of lightness in OKLCh. The first goes from misclassified (brown) over the boundary
# to correct (blue), which readers with red-green color blindness can distinguish; the second gets darker.
DIVERGING = (
    "#571e0b", "#893a0d", "#b36229", "#cf925f", "#e3c4a5", "#f5f5f4",
    "#a9d1ea", "#63aada", "#2b80bf", "#0e5794", "#0c335f",
)  # fmt: skip
SEQUENTIAL = (
    "#f9f6df", "#edd4a2", "#e7ad69", "#e47e47", "#d0534e", "#a83a5c", "#7c295e", "#511c51", "#2b103d",
)  # fmt: skip
_GRAY, _LIGHT, _DARK = 128, 255, 17
_BANDS = 20  # of color, at most
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
    rows = drawn.margin if values == "margin" else drawn.loss
    numbers = np.array([[one if is_shown(one) else np.nan for one in row] for row in rows], dtype=np.float64)
    parts, top = svg.heading(title, _NAMES[values], WIDTH)
    if len(drawn.along) < 2 or not np.isfinite(numbers).any():
        return svg.no_data(parts, top, WIDTH, title=title)
    ticks = nice_ticks(*_limits(numbers, values))
    colors = SEQUENTIAL if values == "loss" else DIVERGING
    x = Axis(low=drawn.along[0], high=drawn.along[-1], start=_LEFT, end=_LEFT + _SIDE)
    y = Axis(low=drawn.along[0], high=drawn.along[-1], start=top + _SIDE, end=top)
    # Rows of an image go down, those of the numbers go up.
    above = enlarged(drawn.along, np.array(drawn.margin))[::-1] > 0
    painted = shaded(enlarged(drawn.along, numbers)[::-1], colors, ticks, above)
    parts += [_image(painted, _LEFT, top, _SIDE), *_axes(x, y), *_overlay(x, y)]
    parts += _bar(float(np.nanmax(numbers)), colors, ticks, top)
    keys, bottom = svg.legend(_keys(), y.start + 58, WIDTH)
    middle, end = len(drawn.along) // 2, int(np.abs(np.array(drawn.along) - 1).argmin())
    shown = [format_number(numbers[middle, column], 3) for column in (middle, end)]
    summary = f"{values.capitalize()} {shown[0]} at the image, {shown[1]} at the attack's end."
    parts += [*keys, svg.text(EDGE, bottom + 14, svg.shorten(summary, WIDTH - 2 * EDGE), extra=FAINT)]
    description = f"{_NAMES[values]}, on a plane through example {drawn.index}. {summary}"
    return svg.picture(WIDTH, bottom + 23, parts, title=title, description=description)


def enlarged(along: Sequence[float], numbers: Numbers) -> Numbers:
    """Interpolate numbers on a square grid at the centers of the pixels that cover it.

    Args:
        along: positions of rows and columns, in order
        numbers: numbers[row][column], at y = along[row] and x = along[column]
    """
    centers = along[0] + (np.arange(_PIXELS) + 0.5) / _PIXELS * (along[-1] - along[0])
    wide = [np.interp(centers, along, row) for row in numbers]
    return np.array([np.interp(centers, along, column) for column in np.transpose(wide)]).T


def shaded(
    numbers: Numbers, colors: Sequence[str], ticks: Sequence[float], above: NDArray[np.bool_] | None = None
) -> str:
    """Draw numbers in bands of color as a PNG image, the first row on top, and return its data URI.

    Args:
        numbers: those beyond the ticks take the first or last color, those that are not finite are gray
        colors: a color map, as hexadecimal colors at equal distances
        ticks: equidistant numbers; bands have an edge at each, and reach from the first to the last
        above: pixels on one side of a boundary, which is drawn dark with a light outline
    """
    bands = _BANDS - _BANDS % (len(ticks) - 1)
    band = np.floor((numbers - ticks[0]) / (ticks[-1] - ticks[0]) * bands).clip(0, bands - 1)
    known = np.array([[int(color[k : k + 2], 16) for k in (1, 3, 5)] for color in colors])
    at, places = band / (bands - 1) * (len(known) - 1), np.arange(len(known))
    painted = np.stack([np.interp(at, places, known[:, k]) for k in range(3)], axis=-1).round()
    painted[~np.isfinite(numbers)] = _GRAY
    if above is not None:
        side = Image.fromarray(above.astype(np.uint8))
        for size, level in ((5, _LIGHT), (3, _DARK)):
            most, least = side.filter(ImageFilter.MaxFilter(size)), side.filter(ImageFilter.MinFilter(size))
            painted[np.array(most) != np.array(least)] = level
    picture = Image.fromarray(painted.astype(np.uint8))
    return png.data_uri(png.stored(picture.convert("P", palette=Image.Palette.ADAPTIVE)))


def _limits(numbers: Numbers, values: Values) -> tuple[float, float]:
    """Choose the range of the colors: 0 gets the middle color of the margin, the first of the loss."""
    low, high = float(np.nanmin(numbers)), float(np.nanmax(numbers))
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
    for tick, name in zip(ticks, map(format_number, ticks), strict=True):
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
    names = [format_number(tick) for tick in ticks]
    if largest > ticks[-1]:
        names[-1] = "≥ " + names[-1]
    axis = Axis(low=ticks[0], high=ticks[-1], start=top + _SIDE, end=top)
    left = _BAR + _BAR_WIDTH + 4
    for tick, name in zip(ticks, names, strict=True):
        parts.append(svg.text(left, axis.at(tick) + 4, svg.shorten(name, WIDTH - left, 11), size=11))
    return parts


def _overlay(x: Axis, y: Axis) -> list[str]:
    """Draw the eps box, the image and the attack's end."""

    def place(column: float, row: float) -> str:
        return f"{coordinate(x.at(column))} {coordinate(y.at(row))}"

    box = "M" + "L".join(place(*corner) for corner in ((-1, -1), (1, -1), (1, 1), (-1, 1))) + "z"
    return [
        _outlined(box, **_EPS),
        _outlined(f"M{place(0, 0)}{_IMAGE}", **_DOT, title="the image"),
        _outlined(f"M{place(1, 0)}{_CROSS}", **_END, title="the attack's end"),
    ]


def _keys() -> list[LegendEntry]:
    return [
        LegendEntry("image", _outlined(f"M13-4{_IMAGE}", **_DOT)),
        LegendEntry("attack's end", _outlined(f"M13-4{_CROSS}", **_END)),
        LegendEntry("decision boundary", _outlined("M1-4h24", **_BOUNDARY)),
        LegendEntry("eps", _outlined("M6-10h14v12h-14z", **_EPS)),
    ]


def _outlined(path: str, light: str, dark: str, title: str = "") -> str:
    """Draw a path dark with a light outline, to be seen on any color and in both themes."""
    named = f"<title>{title}</title>" if title else ""
    return (
        f'<g fill="none" stroke-linecap="round" stroke-linejoin="round">{named}'
        f'<path d="{path}" stroke="#fff" {light}/><path d="{path}" stroke="#111" {dark}/></g>'
    )
