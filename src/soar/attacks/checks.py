"""Refuse values that make no sense when an attack is made, by the name of the option."""

from __future__ import annotations

from typing import SupportsIndex

from soar.errors import UserError


def count(*, least: int = 1, **values: int) -> None:
    """Refuse any value that is not a whole number of at least so much.

    >>> count(steps=0)
    Traceback (most recent call last):
    soar.errors.UserError: attack.steps: got 0, expected at least 1
    """
    for name, value in values.items():
        if not isinstance(value, SupportsIndex):
            raise UserError(f"attack.{name}: got {value!r}, expected a whole number")
        if value < least:
            raise UserError(f"attack.{name}: got {value}, expected at least {least}")
