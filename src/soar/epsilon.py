"""Perturbation sizes as they are commonly written, such as 8/255, kept exactly."""

from __future__ import annotations

import math
import re
from decimal import Decimal
from fractions import Fraction
from numbers import Real

from soar.errors import UserError, flag_of, shown

Ratio = str | float | Fraction

# What float32 can hold, squared too; and no typed or stored ratio is longer.
_SMALLEST, _LARGEST = Fraction(1, 10**30), Fraction(10**30)
_LONGEST = 200


def parse(size: Ratio, field: str = "eps") -> Fraction:
    """Read "8/255", "0.031", 0.031 or a Fraction as an exact ratio.

    A float means the decimal number that Python prints for it, so 0.1 is one tenth; but 8 / 255, computed,
    means 8/255 and not its first digits.

    Args:
        size: what was given
        field: the field or flag it came from, for the message

    Raises:
        UserError: if it is not a finite positive number

    >>> parse("8/255")
    Fraction(8, 255)
    >>> parse(0.1), parse(8 / 255)
    (Fraction(1, 10), Fraction(8, 255))
    """
    if isinstance(size, float) and math.isfinite(255 * size) and size == round(255 * size) / 255:
        size = Fraction(round(255 * size), 255)
    try:
        ratio = size if isinstance(size, Fraction) else _read(size)
    except (ValueError, ZeroDivisionError):
        raise UserError(
            f"{field}: got {shown(size)}, expected a positive number such as 8/255 or 0.1{flag_of(field)}"
        ) from None
    if ratio <= 0:
        raise UserError(f"{field}: got {as_given(size)}, expected a number above 0{flag_of(field)}")
    if not _SMALLEST <= ratio <= _LARGEST:
        raise UserError(f"{field}: got {as_given(size)}, expected from 1e-30 to 1e30{flag_of(field)}")
    return ratio


def _read(size: object) -> Fraction:
    """Read an exact ratio, but refuse one so long that computing it could take forever."""
    if not isinstance(size, str | Real | Decimal):
        raise ValueError(size)
    text = str(size).replace(" ", "")
    if len(text) > _LONGEST or re.search(r"[eE][+-]?[\d_]{4,}", text):
        raise ValueError(text)
    return Fraction(text)


def as_given(size: Ratio) -> str:
    """Return a size as it was typed, for an error message."""
    return size if isinstance(size, str) else shown(size)


def show(ratio: Fraction) -> str:
    """Format a ratio so that parsing it returns the same ratio: 0.1, 8/255, 1/3.

    >>> [show(Fraction(1, 10)), show(Fraction(5, 255)), show(Fraction(1, 3))]
    ['0.1', '5/255', '1/3']
    """
    decimal = f"{float(ratio):.12g}"
    if Fraction(decimal) == ratio:
        return decimal
    # Pixels come in steps of 1/255, so 5/255 is more familiar than 1/51.
    if ratio.denominator > 3 and 255 % ratio.denominator == 0:
        return f"{(ratio * 255).numerator}/255"
    return f"{ratio.numerator}/{ratio.denominator}"
