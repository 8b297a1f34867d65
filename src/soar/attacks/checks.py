"""Refuse values that make no sense when an attack is made, by the name of the option."""

from __future__ import annotations

from typing import get_args

from soar import values as check
from soar.errors import UserError, shown, unknown


def count(*, least: int = 1, **values: int) -> None:
    """Refuse any value that is not a whole number of at least so much.

    >>> count(steps=0)
    Traceback (most recent call last):
    soar.errors.UserError: attack.steps: got 0, expected at least 1
    """
    for name, value in values.items():
        check.whole(value, f"attack.{name}", least=least, flag="")


def choice(name: str, value: str, kind: object) -> None:
    """Refuse a value that is not one of the names of a `Literal` type."""
    if not isinstance(value, str) or value not in get_args(kind):
        raise unknown(name, value, get_args(kind), f"attack.{name}")


def flag(**values: bool) -> None:
    """Refuse any value that is not True or False."""
    for name, value in values.items():
        check.truth(value, f"attack.{name}")


def share(**values: float) -> None:
    """Refuse any value that is not above 0 and at most 1.

    >>> share(p=2)
    Traceback (most recent call last):
    soar.errors.UserError: attack.p: got 2, expected a share above 0 and at most 1
    """
    for name, value in values.items():
        check.number(value, f"attack.{name}")
        if not 0 < value <= 1:
            raise UserError(f"attack.{name}: got {shown(value)}, expected a share above 0 and at most 1")
