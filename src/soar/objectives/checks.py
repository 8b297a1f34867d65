"""Check the options of an objective when it is built, naming the option in the message."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from soar import epsilon
from soar import values as check
from soar.errors import UserError, shown, unknown


def count(*, least: int = 1, **values: int) -> None:
    """Check that every value is an integer of at least `least`."""
    for name, value in values.items():
        check.whole(value, f"objective.{name}", least=least)


def positive(**values: float | None) -> None:
    """Check that every value is a finite number above 0; None stands for no value.

    >>> positive(beta=-1)
    Traceback (most recent call last):
    soar.errors.UserError: objective.beta: got -1, expected above 0 (flag --objective.beta)
    """
    _numbers(values, lambda value: 0 < value < math.inf, "above 0")


def not_negative(**values: float | None) -> None:
    """Check that every value is a finite number of at least 0; None stands for no value."""
    _numbers(values, lambda value: 0 <= value < math.inf, "at least 0")


def fraction(*, zero: bool = True, **values: float) -> None:
    """Check that every value is a number from 0 to 1, or above 0 where `zero` is not allowed."""
    expected = "from 0 to 1" if zero else "above 0 and at most 1"
    _numbers(values, lambda value: 0 <= value <= 1 and (zero or value > 0), expected)


def length(**values: epsilon.Ratio | None) -> float | None:
    """Return the one length given, such as step_size="2/255", as a number; None stands for no value."""
    ((name, value),) = values.items()
    return None if value is None else float(epsilon.parse(value, f"objective.{name}"))


def choice(name: str, value: str, kind: object) -> None:
    """Check that a value is one of the names of a `Literal` type."""
    choices = getattr(kind, "__args__", ())
    if not isinstance(value, str) or value not in choices:
        raise unknown(name, value, choices, f"objective.{name}")


def _numbers(values: Mapping[str, float | None], holds: Callable[[float], bool], expected: str) -> None:
    for name, value in values.items():
        if value is None:
            continue
        check.number(value, f"objective.{name}")
        if not holds(value):
            raise UserError(
                f"objective.{name}: got {shown(value)}, expected {expected} (flag --objective.{name})"
            )
