from __future__ import annotations

import math

import pytest

from soar.report.drawing.lines import ChartLine, Plane, describe, line, parts_of
from soar.report.drawing.svg import Axis

PLANE = Plane(
    Axis(low=0, high=10, start=0, end=100), Axis(low=0, high=1, start=100, end=0), True, {8.0: "8/255"}
)


def curve(y: list[float], *, low: tuple[float, ...] = (), high: tuple[float, ...] = ()) -> ChartLine:
    return ChartLine(label="PGD", x=tuple(map(float, range(len(y)))), y=tuple(y), low=low, high=high)


def drawn(one: ChartLine) -> str:
    return line(0, one.label, parts_of(one), PLANE, strong=False)


def test_a_line_goes_through_its_points() -> None:
    assert 'd="M0 100L10 50L20 0"' in drawn(curve([0, 0.5, 1]))


def test_a_number_that_is_unknown_leaves_a_gap() -> None:
    assert 'd="M0 100L10 50M30 0L40 0"' in drawn(curve([0, 0.5, math.nan, 1, 1]))
    assert 'd="M0 100L10 50M40 0L50 0"' in drawn(curve([0, 0.5, math.inf, math.nan, 1, 1]))


def test_a_point_between_gaps_has_a_marker_and_no_line() -> None:
    found = drawn(curve([0, math.nan, 0.5, math.nan, 1]))
    assert "M20 50m" in found and "L" not in found


def test_the_band_goes_along_the_upper_ends_and_back_along_the_lower_ones() -> None:
    found = drawn(curve([0.5, 0.5], low=(0.4, 0.3), high=(0.6, 0.9)))
    assert 'd="M0 40L10 10L10 70L0 60Z"' in found


def test_a_point_alone_gets_a_bar() -> None:
    assert 'd="M0 60L0 40" stroke' in drawn(curve([0.5], low=(0.4,), high=(0.6,)))


def test_a_long_curve_has_few_markers() -> None:
    assert drawn(curve([0.5] * 40)).count("<title>") == 40
    assert 30 < drawn(curve([0.5] * 5000)).count("<title>") <= 40


def test_each_marker_says_its_numbers() -> None:
    parts = parts_of(curve([0.8123] * 9, low=(0.75,) * 9, high=(0.85,) * 9))
    found = line(1, "A & B", parts, PLANE, strong=False)
    assert "<title>A &amp; B: 81.2% (95% interval 75.0% to 85.0%) at 8/255</title>" in found
    assert found.count("<title>") == 9


def test_long_lines_are_summed_up_in_words() -> None:
    y = [0.9, *[0.5] * 10, 0.1, 0.2]
    said = describe("PGD", parts_of(curve(y)), PLANE)
    assert said == "PGD: begins with 90.0% at 0, ends with 20.0% at 12."


def test_curves_look_different_in_black_and_white() -> None:
    parts = parts_of(curve([0, 1]))
    looks = {line(k, "", parts, PLANE, strong=False).partition("fill=")[2] for k in range(20)}
    assert len(looks) == 20


def test_a_curve_with_more_x_than_y_is_refused() -> None:
    with pytest.raises(ValueError, match="shorter"):
        parts_of(ChartLine(label="", x=(0, 1), y=(0,)))
