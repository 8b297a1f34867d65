from __future__ import annotations

import itertools
import math
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from soar.report.drawing.charts import PALETTE, line_chart
from soar.report.drawing.lines import ChartLine
from soar.report.drawing.svg import coordinate
from tests.report.drawings import SVG, parsed, texts, tooltips

ANY = st.floats(allow_nan=True, allow_infinity=True)
HOSTILE = (
    "<script>alert(1)</script>",
    "\"'><img src=x onerror=alert(1)>",
    "🦊" * 80,
    "]]>&amp;<!--",
    "W" * 5000,
    "名前" * 60,
    "a\x00\x1b\ud800b",
)


def chart(*curves: ChartLine, title: str = "t", **options: object) -> str:
    return line_chart(curves, title=title, x_label="x", y_label="y", **options)  # type: ignore[arg-type]


def curve(*y: float, label: str = "PGD") -> ChartLine:
    return ChartLine(label=label, x=tuple(map(float, range(len(y)))), y=y)


def test_points_lie_where_they_belong() -> None:
    # One row of title, one of labels: the plot spans y from 48 to 238; x from "100%" and its room to 400.
    drawing = chart(curve(1.0, 0.5, 0.0), percent=True)
    left = 3 + 8 + 12 * (3 * 0.64 + 1.0)
    middle = coordinate((left + 400) / 2)
    assert f'd="M{coordinate(left)} 48L{middle} 143L400 238"' in drawing
    assert texts(parsed(drawing)) == [
        "t", "y", "0%", "20%", "40%", "60%", "80%", "100%", "0", "0.5", "1", "1.5", "2", "x", "PGD",
    ]  # fmt: skip


def test_shares_are_drawn_from_0_on() -> None:
    assert "0%" in texts(parsed(chart(curve(0.9, 0.95), percent=True)))


def test_named_ticks_take_the_place_of_round_ones() -> None:
    ticks = [(0, "0"), (1, "8/255"), (2, "16/255")]
    root = parsed(chart(curve(3, 2, 1), x_ticks=ticks, marked=1))
    assert [one for one in texts(root) if "255" in one] == ["8/255", "16/255", "eps = 8/255"]
    assert "PGD: 2 at 8/255" in tooltips(root)
    assert "2 at 8/255" in (root[1].text or "")


def test_names_without_room_are_left_out() -> None:
    ticks = [(k / 255, f"{k}/255") for k in range(256)]
    shown = [one for one in texts(parsed(chart(curve(1, 2), x_ticks=ticks))) if "/255" in one]
    assert 3 < len(shown) < 12


def test_the_marked_radius_is_a_dashed_line_over_the_whole_height() -> None:
    root = parsed(chart(curve(1, 2, 3), marked=4))
    dashed = [one.get("d", "") for one in root if one.get("stroke-dasharray") == "3 3"]
    assert dashed == ["M400 238L400 48"]
    assert "eps = 4" in texts(root)
    assert "nan" not in chart(curve(1, 2), marked=math.nan)


def test_colors_come_from_the_page_and_words_have_those_of_the_text() -> None:
    drawing = chart(*[curve(1, 2, label=str(k)) for k in range(9)])
    used = re.findall(r"var\((--series-\d)\)", drawing)
    assert set(used) == set(PALETTE) and len(PALETTE) == 8
    assert not re.search(r'<text[^>]*(fill|style|stroke)="', drawing)
    assert "#" not in drawing


def test_the_strong_curve_has_the_color_of_the_text() -> None:
    drawing = chart(curve(1, 2), curve(0, 1, label="worst case"), strong="worst case")
    assert "--series-2" not in drawing and 'stroke-width="3"' in drawing


def test_a_curve_without_points_keeps_its_color_and_has_no_legend() -> None:
    drawing = chart(curve(label="none"), curve(1, 2, label="some"))
    assert "none" not in texts(parsed(drawing)) and drawing.count("--series-2") == 2
    assert "none: no numbers." in drawing


@pytest.mark.parametrize("curves", [(), (curve(),), (curve(math.nan, math.inf),)])
def test_no_data(curves: tuple[ChartLine, ...]) -> None:
    assert "no data" in texts(parsed(chart(*curves, marked=1.0)))


@pytest.mark.parametrize(
    "y", [(5.0,), (5.0, 5.0, 5.0), (1e-6, 1e6), (0.0, 0.0), (0.0, 1e-6, 1e6), (-3.0, -3.0)]
)
def test_unusual_numbers(y: tuple[float, ...]) -> None:
    drawn = chart(curve(*y), marked=0.0)
    assert "nan" not in drawn and "inf" not in drawn
    parsed(drawn)


def test_the_same_input_gives_the_same_text() -> None:
    assert chart(curve(1, 2, 4)) == chart(curve(1, 2, 4))


@pytest.mark.parametrize("words", HOSTILE)
def test_hostile_words_come_out_escaped_and_inside(words: str) -> None:
    drawing = line_chart(
        [curve(1, 2, label=words), curve(2, 3, label=words)],
        title=words, x_label=words, y_label=words, x_ticks=[(0, words), (1, words)], marked=1, strong=words,
    )  # fmt: skip
    root = parsed(drawing)
    assert len(list(root.iter(SVG + "text"))) < 20
    assert "<script" not in drawing and "<img" not in drawing
    drawing.encode()


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.lists(st.tuples(ANY, ANY, ANY, ANY), max_size=30), max_size=4),
    st.booleans(),
    st.one_of(st.none(), ANY),
)
def test_any_numbers_make_a_chart_with_all_of_it_inside(
    rows: list[list[tuple[float, float, float, float]]],
    percent: bool,
    marked: float | None,
) -> None:
    curves = []
    for one in rows:
        x, y, low, high = zip(*one, strict=True) if one else ((),) * 4
        curves.append(ChartLine(label="a", x=x, y=y, low=low, high=high))
    drawing = chart(*curves, percent=percent, marked=marked)
    parsed(drawing)
    assert not re.search(r'"[^"]*\b(nan|inf)\b[^"]*"', drawing)


# What people without one of the three kinds of cones see, on linear RGB (Machado et al. 2009, severity 1).
SIGHTS = {
    "all": np.eye(3),
    "no red": np.array([[0.1523, 1.0526, -0.2049], [0.1145, 0.7863, 0.0992], [-0.0039, -0.0481, 1.0520]]),
    "no green": np.array([[0.3673, 0.8606, -0.2280], [0.2801, 0.6725, 0.0474], [-0.0118, 0.0429, 0.9689]]),
    "no blue": np.array([[1.2555, -0.0767, -0.1788], [-0.0784, 0.9308, 0.1476], [0.0047, 0.6914, 0.3039]]),
}


def linear(color: str) -> NDArray[np.float64]:
    parts = np.array([int(color[k : k + 2], 16) for k in (1, 3, 5)]) / 255
    found: NDArray[np.float64] = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return found


def oklab(rgb: NDArray[np.float64]) -> NDArray[np.float64]:
    cones = [[0.4122, 0.5363, 0.0514], [0.2119, 0.6807, 0.1074], [0.0883, 0.2817, 0.6300]]
    lab = [[0.2105, 0.7936, -0.0041], [1.9780, -2.4286, 0.4506], [0.0259, 0.7828, -0.8087]]
    found: NDArray[np.float64] = np.array(lab) @ np.cbrt(np.array(cones) @ rgb.clip(0, 1))
    return found


@pytest.mark.parametrize("theme", [0, 1])
@pytest.mark.parametrize("sight", SIGHTS)
def test_colors_are_told_apart(sight: str, theme: int) -> None:
    seen = [oklab(SIGHTS[sight] @ linear(pair[theme])) for pair in PALETTE.values()]
    assert min(np.linalg.norm(a - b) for a, b in itertools.combinations(seen, 2)) > 0.07


@pytest.mark.parametrize(("theme", "ground"), [(0, "#ffffff"), (1, "#14171c")])
def test_lines_stand_out_from_the_ground(theme: int, ground: str) -> None:
    for pair in PALETTE.values():
        dark, light = sorted(linear(one) @ (0.2126, 0.7152, 0.0722) for one in (pair[theme], ground))
        assert (light + 0.05) / (dark + 0.05) > 3  # what accessibility rules ask for of graphics


def test_the_area_between_two_curves_ends_where_one_of_them_does() -> None:
    upper, lower = curve(1.0, 0.8, 0.4), ChartLine(label="low", x=(0.0, 1.5), y=(1.0, 0.2))
    plain = chart(upper, lower, percent=True)
    shaded = chart(upper, lower, percent=True, between="unknown")
    (area,) = re.findall(r'd="(M[^"]*Z)" fill="currentColor" opacity=".16"', shaded)[:1]
    places = [tuple(map(float, pair.split())) for pair in re.split("[ML]", area.rstrip("Z"))[1:]]
    # Along the upper curve to 1.5, where it is at 0.6, and back along the lower one.
    assert len(places) == 5 and places[0] == places[-1]
    (_, top), (_, at_one), (end, high), (low_end, low), _ = places
    assert end == low_end
    per_unit = (at_one - top) / 0.2
    assert high - top == pytest.approx(0.4 * per_unit, abs=0.1)
    assert low - top == pytest.approx(0.8 * per_unit, abs=0.1)
    assert "unknown" in texts(parsed(shaded)) and "unknown" not in plain
    assert "Between PGD and low: unknown." in shaded


def test_no_area_is_drawn_between_curves_with_gaps() -> None:
    broken = curve(1.0, float("nan"), 0.4)
    assert 'Z" fill="currentColor" opacity=".16"' not in chart(broken, curve(0.5, 0.4), between="unknown")
