"""Check single values; errors name what was got, what is expected, and the field."""

from __future__ import annotations

import math
from numbers import Integral, Real
from pathlib import Path

from soar.errors import UserError, flag_of, shown

# Tensors hold 64-bit integers, and Python refuses to print much longer ones.
_LARGEST = 2**63 - 1
_LONGEST_PATH = 4096


def whole(value: object, field: str, *, least: int = -_LARGEST, flag: str | None = None) -> None:
    """Check that a value is a whole number; True and False are not.

    Args:
        value: the value
        field: the field or argument it came from, for the message
        least: the smallest number that is allowed
        flag: the end of the message; by default the flag of the field

    Raises:
        UserError: if it is anything else

    >>> whole(0, "attack.steps", least=1)
    Traceback (most recent call last):
    soar.errors.UserError: attack.steps: got 0, expected at least 1 (flag --attacks)
    """
    end = flag_of(field) if flag is None else flag
    if not isinstance(value, Integral) or isinstance(value, bool):
        raise UserError(f"{field}: got {shown(value)}, expected a whole number{end}")
    if int(value) < least:
        raise UserError(f"{field}: got {shown(value)}, expected at least {least}{end}")
    if int(value) > _LARGEST:
        raise UserError(f"{field}: got {shown(value)}, expected at most 2^63 - 1{end}")


def number(value: object, field: str) -> None:
    """Check that a value is a number that a float can hold; infinity and NaN are left to the caller.

    >>> number("0.5", "attack.p")
    Traceback (most recent call last):
    soar.errors.UserError: attack.p: got '0.5', expected a number (flag --attacks)
    """
    if not isinstance(value, Real) or isinstance(value, bool):
        raise UserError(f"{field}: got {shown(value)}, expected a number{flag_of(field)}")
    try:
        math.isfinite(value)
    except OverflowError:
        raise UserError(
            f"{field}: got {shown(value)}, expected a number that a float can hold{flag_of(field)}"
        ) from None


def truth(value: object, field: str) -> None:
    """Check that a value is True or False.

    >>> truth("no", "attack.random_start")
    Traceback (most recent call last):
    soar.errors.UserError: attack.random_start: got 'no', expected True or False (flag --attacks)
    """
    if not isinstance(value, bool):
        raise UserError(f"{field}: got {shown(value)}, expected True or False{flag_of(field)}")


def text(value: object, field: str) -> None:
    """Check that a value is a string.

    >>> text(5, "name")
    Traceback (most recent call last):
    soar.errors.UserError: name: got 5, expected a string
    """
    if not isinstance(value, str):
        raise UserError(f"{field}: got {shown(value)}, expected a string")


def place(value: object, field: str) -> Path:
    """Check that a value can name a file or folder, and return it as a path.

    >>> place(None, "path")
    Traceback (most recent call last):
    soar.errors.UserError: path: got None, expected the name of a file or folder
    """
    is_path = isinstance(value, str | Path) and str(value).isprintable() and len(str(value)) <= _LONGEST_PATH
    if not is_path:
        raise UserError(f"{field}: got {shown(value)}, expected the name of a file or folder")
    return Path(str(value))
