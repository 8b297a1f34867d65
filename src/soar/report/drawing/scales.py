"""Axes: which range they show, where a number is drawn, and which round values are written beside them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

_LARGEST = 1e150  # beyond it, differences and powers of ten overflow
_FLAT = 1e-6  # a range this small beside its numbers cannot be labeled in few digits
_MOST_TICKS = 6
_MINUS, _TIMES = "\N{MINUS SIGN}", "\N{MULTIPLICATION SIGN}"
_SUPERSCRIPTS = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")


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


def nice_ticks(low: float, high: float, *, whole: bool = False) -> tuple[float, ...]:
    """Choose a few round numbers that enclose a range: steps of 1, 2 or 5 times a power of ten.

    Args:
        low: lower end of the range
        high: upper end
        whole: whether only integers make sense

    >>> nice_ticks(0, 0.97)
    (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
    >>> nice_ticks(-3, 40)
    (-10.0, 0.0, 10.0, 20.0, 30.0, 40.0)
    >>> nice_ticks(0, 2, whole=True)
    (0.0, 1.0, 2.0)
    """
    low, high = widened(low, high)
    exponent = math.floor(math.log10((high - low) / _MOST_TICKS))
    if whole:
        exponent = max(0, exponent)
    while True:
        for factor in (1, 2, 5):
            step = factor * 10.0**exponent
            # 0.3 / 0.1 is a little less than 3, and must not add a tick at 0.2.
            first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
            if last - first < _MOST_TICKS:
                return tuple(float(f"{k * step:.12g}") for k in range(first, last + 1))
        exponent += 1


def tick_labels(ticks: Sequence[float], *, percent: bool = False) -> list[str]:
    """Format ticks with all digits that distinguish them.

    >>> tick_labels([0.0, 0.25, 0.5]), tick_labels([0, 0.5, 1], percent=True)
    (['0', '0.25', '0.5'], ['0%', '50%', '100%'])
    """
    if percent:
        return [f"{format_number(100 * tick, 10)}%" for tick in ticks]
    return [format_number(tick, 10) for tick in ticks]


def format_number(value: float, digits: int = 6) -> str:
    """Format a number with some significant digits, very large and very small ones with a power of ten.

    >>> [format_number(one) for one in (1 / 3, -2, 1e6, 2.5e-7, math.nan)]
    ['0.333333', '−2', '10⁶', '2.5×10⁻⁷', 'unknown']
    """
    if not math.isfinite(value):
        return "unknown"
    rounded = float(f"{value:.{digits}g}") + 0.0  # which makes 0 of -0.0, the loss of a saturated softmax
    if rounded == 0 or 1e-3 <= abs(rounded) < 1e5:
        return f"{rounded:.10g}".replace("-", _MINUS)
    mantissa, _, exponent = f"{rounded:.9e}".partition("e")
    mantissa = mantissa.rstrip("0").rstrip(".")
    power = "10" + str(int(exponent)).translate(_SUPERSCRIPTS)
    factor = {"1": "", "-1": _MINUS}.get(mantissa, mantissa.replace("-", _MINUS) + _TIMES)
    return factor + power
