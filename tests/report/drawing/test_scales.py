from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from soar.report.drawing.scales import Axis, format_number, is_shown, nice_ticks, tick_labels, widened

MINUS, TIMES = "\N{MINUS SIGN}", "\N{MULTIPLICATION SIGN}"
NUMBERS = st.floats(-1e140, 1e140, allow_nan=False)


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (0, 1, (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)),
        (0.3, 0.7, (0.3, 0.4, 0.5, 0.6, 0.7)),
        (0.12, 0.43, (0.1, 0.2, 0.3, 0.4, 0.5)),
        (1, 30, (0.0, 10.0, 20.0, 30.0)),
        (1e-6, 3e-6, (1e-6, 1.5e-6, 2e-6, 2.5e-6, 3e-6)),
        (-1e6, 1e6, (-1e6, -5e5, 0.0, 5e5, 1e6)),
        (7, 7, (2.0, 4.0, 6.0, 8.0, 10.0, 12.0)),
        (0, 0, (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)),
    ],
)
def test_ticks(low: float, high: float, ticks: tuple[float, ...]) -> None:
    assert nice_ticks(low, high) == ticks


@given(NUMBERS, NUMBERS, st.booleans())
def test_ticks_are_few_ordered_and_enclose(one: float, other: float, whole: bool) -> None:
    low, high = widened(*sorted((one, other)))
    ticks = nice_ticks(low, high, whole=whole)
    slack = 1e-6 * (high - low) + 1e-8 * (ticks[-1] - ticks[0])
    assert 2 <= len(ticks) <= 6
    assert list(ticks) == sorted(set(ticks))
    assert ticks[0] <= low + slack and ticks[-1] >= high - slack
    assert not whole or all(tick.is_integer() for tick in ticks)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1e200])
def test_what_has_no_place(value: float) -> None:
    assert not is_shown(value)


def test_places_on_an_axis_that_goes_up() -> None:
    axis = Axis(low=0, high=4, start=200, end=100)
    assert [axis.at(value) for value in (0, 1, 4, 9, -3)] == [200, 175, 100, 100, 200]


def test_ticks_are_formatted_shortly() -> None:
    assert tick_labels([0.1 + 0.2, -0.0, -2.5, 99999]) == ["0.3", "0", f"{MINUS}2.5", "99999"]
    assert tick_labels([1e6, 2.5e-7, math.nan]) == ["10⁶", f"2.5{TIMES}10⁻⁷", "unknown"]
    assert tick_labels([-200000, 1.000002]) == [f"{MINUS}2{TIMES}10⁵", "1.000002"]


def test_numbers_are_rounded_to_the_digits_that_matter() -> None:
    assert [format_number(one) for one in (1e-6, 1e6, 0.123456789)] == ["10⁻⁶", "10⁶", "0.123457"]
    assert [format_number(one, 3) for one in (12345, 0.99999, -1e-9)] == ["12300", "1", f"{MINUS}10⁻⁹"]
