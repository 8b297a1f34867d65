from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from soar.report.drawing.scales import Axis, is_shown, log_ticks, nice_ticks, tick_words, widened, words

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


@given(st.floats(1e-140, 1e140), st.floats(1e-140, 1e140))
def test_logarithmic_ticks_are_few_ordered_and_enclose(one: float, other: float) -> None:
    low, high = sorted((one, other))
    ticks = log_ticks(low, high)
    assert 2 <= len(ticks) <= 6
    assert list(ticks) == sorted(set(ticks))
    assert ticks[0] <= low * (1 + 1e-12) and high <= ticks[-1] * (1 + 1e-12)


def test_a_constant_has_logarithmic_ticks_too() -> None:
    assert log_ticks(10, 10) == (10.0, 20.0, 50.0, 100.0)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1e200])
def test_what_has_no_place(value: float) -> None:
    assert not is_shown(value)


@pytest.mark.parametrize("value", [0.0, -1.0, 1e-200])
def test_what_has_no_place_on_a_logarithmic_axis(value: float) -> None:
    assert is_shown(value) and not is_shown(value, log=True)


def test_places_on_an_axis_that_goes_up() -> None:
    axis = Axis(low=0, high=4, start=200, end=100)
    assert [axis.at(value) for value in (0, 1, 4, 9, -3)] == [200, 175, 100, 100, 200]


def test_a_zero_lies_at_the_bottom_of_a_logarithmic_axis() -> None:
    assert Axis(low=1e-3, high=1, start=200, end=100, log=True).at(0) == 200


def test_numbers_are_written_shortly() -> None:
    assert tick_words([0.1 + 0.2, -0.0, -2.5, 99999]) == ["0.3", "0", "\N{MINUS SIGN}2.5", "99999"]
    assert tick_words([1e6, 2.5e-7, math.nan]) == ["10⁶", "2.5\N{MULTIPLICATION SIGN}10⁻⁷", "unknown"]


def test_words_keep_what_matters() -> None:
    assert [words(one) for one in (1e-6, 1e6, 0.123456789)] == ["1e-06", "1e+06", "0.123457"]
    assert words(0.5, percent=True) == "50.0%"
