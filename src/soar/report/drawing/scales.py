"""Axes: which part of the numbers is shown, where, and which round values are written beside it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from soar import text

_LARGEST = 1e150  # beyond it, differences and powers of ten overflow
_FLAT = 1e-6  # a range this small beside its numbers cannot be labeled in few digits
_MINUS, _TIMES = "\N{MINUS SIGN}", "\N{MULTIPLICATION SIGN}"
_SUPERSCRIPTS = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")


@dataclass(frozen=True, kw_only=True)
class Axis:
    """A range of numbers laid out between two positions.

    >>> Axis(low=0, high=10, start=100, end=200).at(5)
    150.0
    >>> Axis(low=1, high=100, start=0, end=10, log=True).at(10)
    5.0
    """

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def at(self, value: float) -> float:
        """Return the position of a number; numbers outside are moved to the nearest end."""
        if self.log:
            value = max(value, self.low)
            share = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return self.start + min(1.0, max(0.0, share)) * (self.end - self.start)


def is_shown(value: float, log: bool = False) -> bool:
    """Return whether a number has a place on an axis: it is finite and, on a logarithmic one, above 0."""
    return abs(value) < _LARGEST and (not log or value > 1 / _LARGEST)


def widened(low: float, high: float) -> tuple[float, float]:
    """Return a range some width where it has none.

    >>> widened(4, 4), widened(0, 0), widened(1, 3)
    ((2.0, 6.0), (0.0, 1.0), (1, 3))
    """
    size = max(abs(low), abs(high))
    if size < 1 / _LARGEST:
        return 0.0, 1.0
    if high - low > _FLAT * size:
        return low, high
    return low - size / 2, high + size / 2


def nice_ticks(low: float, high: float, *, most: int = 6, whole: bool = False) -> tuple[float, ...]:
    """Choose few round numbers that enclose a range: steps of 1, 2 or 5 times a power of ten.

    Args:
        low: where the range begins
        high: where it ends
        most: how many numbers at most
        whole: whether only whole numbers make sense

    >>> nice_ticks(0, 0.97)
    (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
    >>> nice_ticks(-3, 40)
    (-10.0, 0.0, 10.0, 20.0, 30.0, 40.0)
    >>> nice_ticks(0, 2, whole=True)
    (0.0, 1.0, 2.0)
    """
    low, high = widened(low, high)
    exponent = math.floor(math.log10((high - low) / most))
    if whole:
        exponent = max(0, exponent)
    while True:
        for factor in (1, 2, 5):
            step = factor * 10.0**exponent
            # 0.3 / 0.1 is a little less than 3, and must not add a tick at 0.2.
            first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
            if last - first < most:
                return tuple(float(f"{k * step:.12g}") for k in range(first, last + 1))
        exponent += 1


def log_ticks(low: float, high: float, *, most: int = 6) -> tuple[float, ...]:
    """Choose powers of ten that enclose a range of positive numbers, with 2 and 5 where there is room.

    >>> log_ticks(0.02, 5)
    (0.01, 0.1, 1.0, 10.0)
    >>> log_ticks(1e-6, 1e6)
    (1e-06, 0.001, 1.0, 1000.0, 1000000.0)
    >>> log_ticks(2, 7)
    (1.0, 2.0, 5.0, 10.0)
    """
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    last = max(last, first + 1)
    stride = math.ceil((last - first) / (most - 1))
    last = first + stride * math.ceil((last - first) / stride)
    powers = [float(f"1e{k}") for k in range(first, last + 1, stride)]
    if last - first > 1:
        return tuple(powers)
    return powers[0], 2 * powers[0], 5 * powers[0], powers[1]


def tick_words(ticks: Sequence[float], *, percent: bool = False) -> list[str]:
    """Write numbers with the digits that tell them apart.

    >>> tick_words([0.0, 0.25, 0.5]), tick_words([0, 0.5, 1], percent=True)
    (['0', '0.25', '0.5'], ['0%', '50%', '100%'])
    >>> tick_words([-200000, 0, 200000]), tick_words([1e-6, 1e-3, 1, 1000])
    (['−2×10⁵', '0', '2×10⁵'], ['10⁻⁶', '0.001', '1', '1000'])
    """
    if percent:
        return [_plain(100 * tick) + "%" for tick in ticks]
    return [_plain(tick) for tick in ticks]


def _plain(value: float) -> str:
    """Write a number shortly, very large and very small ones as powers of ten."""
    if value == 0:
        return "0"  # also for -0.0, which a saturated loss is
    if not math.isfinite(value):
        return "unknown"
    digits = f"{value:.10g}"
    if 1e-3 <= abs(value) < 1e5:
        return digits.replace("-", _MINUS)
    mantissa, _, exponent = f"{value:.9e}".partition("e")
    mantissa = mantissa.rstrip("0").rstrip(".")
    power = "10" + str(int(exponent)).translate(_SUPERSCRIPTS)
    factor = {"1": "", "-1": _MINUS}.get(mantissa, mantissa.replace("-", _MINUS) + _TIMES)
    return factor + power


def words(value: float, *, percent: bool = False) -> str:
    """Write one number with all digits that matter; a share in percent.

    >>> words(0.81234, percent=True), words(1 / 3), words(float("nan"))
    ('81.2%', '0.333333', 'unknown')
    """
    if not math.isfinite(value):
        return "unknown"
    return text.percent(value) if percent else f"{value:.6g}"
