"""Refuse values that make no sense when an objective is made, by the name of the option."""

from __future__ import annotations

import math

from soar import values as check
from soar.errors import UserError, shown, unknown


def count(*, least: int = 1, **values: int) -> None:
    """Refuse any value that is not a whole number of at least so much."""
    for name, value in values.items():
        check.whole(value, f"objective.{name}", least=least)


def positive(**values: float | None) -> None:
    """Refuse any value that is not a finite number above 0; None stands for no value.

    >>> positive(beta=-1)
    Traceback (most recent call last):
    soar.errors.UserError: objective.beta: got -1, expected above 0 (flag --objective.beta)
    """
    for name, value in values.items():
        if value is None:
            continue
        check.number(value, f"objective.{name}")
        if not 0 < value < math.inf:
            raise UserError(
                f"objective.{name}: got {shown(value)}, expected above 0 (flag --objective.{name})"
            )


def not_negative(**values: float) -> None:
    """Refuse any value that is not a finite number of at least 0."""
    for name, value in values.items():
        check.number(value, f"objective.{name}")
        if not 0 <= value < math.inf:
            raise UserError(
                f"objective.{name}: got {shown(value)}, expected at least 0 (flag --objective.{name})"
            )


def share(**values: float) -> None:
    """Refuse any value outside of 0 to 1."""
    for name, value in values.items():
        check.number(value, f"objective.{name}")
        if not 0 <= value <= 1:
            raise UserError(
                f"objective.{name}: got {shown(value)}, expected from 0 to 1 (flag --objective.{name})"
            )


def choice(name: str, value: str, kind: object) -> None:
    """Refuse a value that is not one of the names of a `Literal` type."""
    choices = getattr(kind, "__args__", ())
    if not isinstance(value, str) or value not in choices:
        raise unknown(name, value, choices, f"objective.{name}")
