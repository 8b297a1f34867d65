"""Pieces of SVG: axes and their numbers, text that fits and is escaped, headings, legends."""

from __future__ import annotations

import html
import math
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

FONT = "system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif"
EDGE = 4.0  # margin at the sides of an image
FAINT = 'opacity=".75"'
_LARGEST = 1e150  # beyond it, differences and powers of ten overflow
_FLAT = 1e-6  # a range this small beside its numbers cannot be labeled in few digits
_MOST_TICKS = 6
_NARROW = frozenset("ijlt.,:;'|!()[]/ ")
_BROAD = frozenset("mwMWQO@%&")


@dataclass(frozen=True, kw_only=True)
class Axis:
    """A linear map from a range of numbers to positions in an image.

    >>> Axis(low=0, high=10, start=100, end=200).at(5)
    150.0
    """

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        """Return the position of a number; numbers outside the range are moved to its nearest end."""
        share = (value - self.low) / (self.high - self.low)
        return self.start + min(1.0, max(0.0, share)) * (self.end - self.start)


def is_shown(value: float) -> bool:
    """Return whether a number can be drawn: it is finite and not too large for arithmetic."""
    return abs(value) < _LARGEST


def widened(low: float, high: float) -> tuple[float, float]:
    """Return a range that is not empty: the one given, or some room around it.

    >>> widened(4, 4), widened(0, 0), widened(1, 3)
    ((2.0, 6.0), (0.0, 1.0), (1, 3))
    """
    size = max(abs(low), abs(high))
    if size < 1 / _LARGEST:
        return 0.0, 1.0
    if high - low > _FLAT * size:
        return low, high
    return low - size / 2, high + size / 2


def nice_ticks(low: float, high: float) -> tuple[float, ...]:
    """Choose a few round numbers that enclose a range: steps of 1, 2 or 5 times a power of ten.

    >>> nice_ticks(0, 0.97)
    (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
    >>> nice_ticks(-3, 40)
    (-10.0, 0.0, 10.0, 20.0, 30.0, 40.0)
    """
    low, high = widened(low, high)
    exponent = math.floor(math.log10((high - low) / _MOST_TICKS))
    while True:
        for factor in (1, 2, 5):
            step = factor * 10.0**exponent
            # 0.3 / 0.1 is a little less than 3, and must not add a tick at 0.2.
            first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
            if last - first < _MOST_TICKS:
                return tuple(float(f"{k * step:.12g}") for k in range(first, last + 1))
        exponent += 1


def format_number(value: float, digits: int = 10) -> str:
    """Format a number with some significant digits.

    >>> [format_number(one, 6) for one in (1 / 3, -2, 2.5e-7, math.nan)]
    ['0.333333', '−2', '2.5e−07', 'unknown']
    """
    if not math.isfinite(value):
        return "unknown"
    # Adding 0 makes 0 of -0.0, the loss of a saturated softmax.
    return f"{float(f'{value:.{digits}g}') + 0.0:.10g}".replace("-", "\N{MINUS SIGN}")


def coordinate(value: float) -> str:
    """Format a coordinate with one decimal, and without it where it is 0.

    >>> [coordinate(12.0), coordinate(0.26), coordinate(-0.01)]
    ['12', '0.3', '0']
    """
    written = f"{value:.1f}".removesuffix(".0")
    return "0" if written == "-0" else written


def escaped(words: str) -> str:
    """Escape text for SVG; characters that XML does not allow are replaced.

    >>> escaped('<b> & "x"')
    '&lt;b&gt; &amp; &quot;x&quot;'
    """
    plain = "".join(" " if one in "\t\n\r" else one if _is_allowed(one) else "\ufffd" for one in words)
    return html.escape(plain)


def _is_allowed(character: str) -> bool:
    return unicodedata.category(character) not in ("Cc", "Cs") and ord(character) & 0xFFFE != 0xFFFE


def width(words: str, size: float = 12) -> float:
    """Estimate how wide a text is, in a broad font, because fonts differ.

    >>> width("iii") < width("nnn") < width("WWW") < width("日本語")
    True
    """
    return size * sum(map(_share, words))


def _share(character: str) -> float:
    """Return the width of a character in units of the font's size."""
    if unicodedata.combining(character):
        return 0.0
    if unicodedata.east_asian_width(character) in "WF" or ord(character) > 0xFFFF:
        return 1.35
    if character in _BROAD or character == "\ufffd" or not _is_allowed(character):
        return 1.0
    if character in _NARROW:
        return 0.41
    return 0.74 if character.isupper() or ord(character) > 0x2E7F else 0.64


def shorten(words: str, most: float, size: float = 12) -> str:
    """Leave out the middle of a text that is too wide: related names differ at their ends.

    Args:
        words: the text
        most: the largest width
        size: the font's size

    >>> shorten("a-rather-long-name-of-a-run", 100)
    'a-rath…-a-run'
    """
    # Nothing that fits is longer, and a text may be a megabyte.
    if len(words) <= 1000 and width(words, size) <= most:
        return words
    kept = int(min(1000, len(words) - 1) // 2)
    while kept and width(words[:kept] + "…" + words[-kept:], size) > most:
        kept -= 1
    return words[:kept] + "…" + (words[-kept:] if kept else "")


def wrapped(words: str, most: float, size: float, lines: int) -> list[str]:
    """Break a text into lines that fit; what does not fit into the last one is shortened.

    >>> wrapped("accuracy against the radius", 130, 12, 2)
    ['accuracy against', 'the radius']
    """
    found: list[str] = []
    rest = words[:2000].split()
    while rest and len(found) < lines - 1:
        count = 1
        while count < len(rest) and width(" ".join(rest[: count + 1]), size) <= most:
            count += 1
        found.append(shorten(" ".join(rest[:count]), most, size))
        rest = rest[count:]
    return [*found, shorten(" ".join(rest), most, size)] if rest else found


def text(x: float, y: float, words: str, *, size: float = 12, anchor: str = "start", extra: str = "") -> str:
    """Place a text in the color of the page's text.

    Args:
        x: position of the anchor
        y: its base line
        words: the text, not yet escaped
        size: the font's size
        anchor: start, middle or end
        extra: further attributes, such as font-weight
    """
    side = "" if anchor == "start" else f' text-anchor="{anchor}"'
    return (
        f'<text x="{coordinate(x)}" y="{coordinate(y)}" font-size="{size:g}"{side}{extra and " " + extra}>'
        f"{escaped(words)}</text>"
    )


class LegendEntry(NamedTuple):
    """A name of a legend with its swatch."""

    name: str
    drawing: str
    """26 wide, on a base line at 0"""
    run: int | None = None
    """the position of the run whose curve it names, to hide both together"""


def legend(entries: Sequence[LegendEntry], top: float, wide: float) -> tuple[list[str], float]:
    """Set names with their swatches in rows, and return where they end.

    Args:
        entries: what to name
        top: the first base line
        wide: how wide the image is
    """
    parts = []
    left = EDGE
    for words, drawing, run in entries:
        name = shorten(words, wide - 2 * EDGE - 32)
        of_run = "" if run is None else f' class="entry" data-run="{run}"'
        room = 32 + width(name)
        if left > EDGE and left + room > wide - EDGE:
            left, top = EDGE, top + 19
        at = f"{coordinate(left)} {coordinate(top)}"
        parts.append(f'<g transform="translate({at})"{of_run}>{drawing}{text(32, 0, name)}</g>')
        left += room + 14
    return parts, top + 8


def heading(title: str, label: str, wide: float) -> tuple[list[str], float]:
    """Draw the title and below it, instead of turned by 90 degrees, the label of y; return where they end."""
    rows = wrapped(title, wide - 2 * EDGE, 14, 2)
    parts = [text(EDGE, 16 + 18 * k, row, size=14, extra='font-weight="600"') for k, row in enumerate(rows)]
    bottom = 18.0 * len(rows) + 16
    return [*parts, text(EDGE, bottom, shorten(label, wide - 2 * EDGE), extra=FAINT)], bottom + 14


def picture(wide: float, high: float, parts: Iterable[str], *, title: str, description: str) -> str:
    """Put parts into an SVG as wide as its place allows, with a description for screen readers.

    No element has an id, so a page can hold any number of images, even the same one twice.
    """
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {coordinate(wide)} {coordinate(high)}"'
        f' width="100%" role="img" font-family="{FONT}" fill="currentColor">'
        f"<title>{escaped(title)}</title><desc>{escaped(description)}</desc>{''.join(parts)}</svg>"
    )


def no_data(parts: Sequence[str], top: float, wide: float, *, title: str) -> str:
    """Draw an image without numbers, under its heading."""
    note = text(wide / 2, top + 40, "no data", anchor="middle", extra=FAINT)
    return picture(wide, top + 70, [*parts, note], title=title, description="There are no data.")
