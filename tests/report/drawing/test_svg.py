from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from soar.report.drawing.svg import (
    Axis,
    LegendEntry,
    coordinate,
    escaped,
    format_number,
    is_shown,
    legend,
    nice_ticks,
    picture,
    shorten,
    text,
    widened,
    width,
    wrapped,
)
from tests.report.drawings import parsed, texts, words_at

MINUS = "\N{MINUS SIGN}"
NUMBERS = st.floats(-1e140, 1e140, allow_nan=False)


def test_coordinates_are_short() -> None:
    assert [coordinate(one) for one in (0, -0.04, -0.06, 3.25001, 100)] == ["0", "0", "-0.1", "3.3", "100"]


def test_what_xml_does_not_allow_is_replaced() -> None:
    assert escaped("a\x00b\ud800c\ufffed") == "a\ufffdb\ufffdc\ufffdd"
    assert escaped("two\nlines\there") == "two lines here"


def test_a_text_that_fits_is_left_alone() -> None:
    assert shorten("PGD-20", 100) == "PGD-20"


def test_names_that_differ_at_their_end_still_do() -> None:
    names = [shorten("adversarial-training-of-a-resnet-" + end, 150) for end in ("seed-1", "seed-2")]
    assert names[0] != names[1] and all("…" in name for name in names)


@given(st.text(max_size=300), st.floats(20, 500))
def test_shortened_text_fits(words: str, most: float) -> None:
    assert width(shorten(words, most)) <= most


def test_a_megabyte_is_shortened_at_once() -> None:
    assert len(shorten("x" * 1_000_000, 100)) < 20


@given(st.text(max_size=300))
def test_wrapped_text_fits(words: str) -> None:
    rows = wrapped(words, 200, 14, 2)
    assert len(rows) <= 2
    assert all(width(row, 14) <= 200 for row in rows)


def test_wrapping_keeps_all_words_where_there_is_room() -> None:
    assert " ".join(wrapped("one two three four five six", 80, 12, 4)) == "one two three four five six"


@given(st.text(max_size=50), st.text(max_size=50))
def test_any_words_make_a_picture_that_shows_them(title: str, words: str) -> None:
    root = parsed(picture(500, 50, [text(4, 20, shorten(words, 400))], title=title, description="x" + words))
    assert escaped(root[0].text or "") == escaped(title)


def test_a_legend_begins_a_new_row_and_overlaps_nowhere() -> None:
    rows, bottom = legend([LegendEntry(f"curve number {k}", "") for k in range(7)], 20, 420)
    root = parsed(picture(420, bottom, rows, title="t", description="d"))
    assert len(texts(root)) == 7
    spans = sorted((base, left, right) for left, right, base in words_at(root))
    assert {base for base, _, _ in spans} == {20 + 19 * k for k in range(len({b for b, _, _ in spans}))}
    for (base, _, right), (other, left, _) in pairwise(spans):
        assert base != other or left > right + 26  # room for the next swatch


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


@given(NUMBERS, NUMBERS)
def test_ticks_are_few_ordered_and_enclose(one: float, other: float) -> None:
    low, high = widened(*sorted((one, other)))
    ticks = nice_ticks(low, high)
    slack = 1e-6 * (high - low) + 1e-8 * (ticks[-1] - ticks[0])
    assert 2 <= len(ticks) <= 6
    assert list(ticks) == sorted(set(ticks))
    assert ticks[0] <= low + slack and ticks[-1] >= high - slack


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1e200])
def test_what_has_no_place(value: float) -> None:
    assert not is_shown(value)


def test_places_on_an_axis_that_goes_up() -> None:
    axis = Axis(low=0, high=4, start=200, end=100)
    assert [axis.at(value) for value in (0, 1, 4, 9, -3)] == [200, 175, 100, 100, 200]


def test_numbers_are_formatted_shortly() -> None:
    assert [format_number(one) for one in (0.1 + 0.2, -0.0, -2.5, 99999)] == [
        "0.3",
        "0",
        f"{MINUS}2.5",
        "99999",
    ]
    assert [format_number(one) for one in (1e6, 2.5e-7, math.nan)] == ["1000000", f"2.5e{MINUS}07", "unknown"]


def test_numbers_are_rounded_to_the_digits_that_matter() -> None:
    assert [format_number(one, 3) for one in (12345, 0.99999, 0.123456789)] == ["12300", "1", "0.123"]
