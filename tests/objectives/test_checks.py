from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

import pytest

from soar.errors import UserError
from soar.objectives import checks

Color = Literal["blue", "green", "red"]


@pytest.mark.parametrize("value", [0, -1, -0.5, math.inf, -math.inf, math.nan])
def test_positive_refuses_by_name(value: float) -> None:
    with pytest.raises(UserError) as caught:
        checks.positive(beta=value)
    assert str(caught.value) == f"objective.beta: got {value}, expected above 0 (flag --objective.beta)"


@pytest.mark.parametrize("value", [-1, -1e-9, math.inf, -math.inf, math.nan])
def test_not_negative_refuses_by_name(value: float) -> None:
    with pytest.raises(UserError) as caught:
        checks.not_negative(weight=value)
    assert (
        str(caught.value) == f"objective.weight: got {value}, expected at least 0 (flag --objective.weight)"
    )


@pytest.mark.parametrize("value", [-0.1, 1.1, math.inf, -math.inf, math.nan])
def test_fraction_refuses_by_name(value: float) -> None:
    with pytest.raises(UserError) as caught:
        checks.fraction(clean=value)
    assert str(caught.value) == f"objective.clean: got {value}, expected from 0 to 1 (flag --objective.clean)"


@pytest.mark.parametrize(
    "check, values",
    [
        (checks.positive, [1e-300, 1, 2.5, 1e300]),
        (checks.not_negative, [0, 0.0, 1e-300, 7]),
        (checks.fraction, [0, 0.5, 1]),
    ],
)
def test_sensible_values_pass(check: Callable[..., None], values: list[float]) -> None:
    for value in values:
        check(value=value)


def test_a_fraction_may_have_to_be_above_0() -> None:
    checks.fraction(zero=False, part=1)
    for value in (0, 1.1):
        with pytest.raises(
            UserError, match=rf"^objective\.part: got {value}, expected above 0 and at most 1 "
        ):
            checks.fraction(zero=False, part=value)


def test_none_stands_for_no_value() -> None:
    checks.positive(limit=None)
    with pytest.raises(UserError, match=r"^objective\.beta: got 0, "):
        checks.positive(limit=None, beta=0)


@pytest.mark.parametrize("check", [checks.positive, checks.not_negative, checks.fraction])
def test_every_value_is_looked_at_and_the_bad_one_named(check: Callable[..., None]) -> None:
    with pytest.raises(UserError, match=r"^objective\.second: got -2, .* \(flag --objective\.second\)$"):
        check(first=1, second=-2)
    with pytest.raises(UserError, match=r"^objective\.first: got -2, "):
        check(first=-2, second=1)


def test_a_choice_must_be_one_of_the_names() -> None:
    for name in ("blue", "green", "red"):
        checks.choice("color", name, Color)
    with pytest.raises(UserError) as caught:
        checks.choice("color", "gren", Color)
    assert str(caught.value) == (
        "unknown color 'gren' (objective.color); did you mean 'green'? Allowed: blue, green, red"
    )
