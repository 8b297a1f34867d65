from __future__ import annotations

import base64
import io
import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from soar.report.drawing.grids import DIVERGING, SEQUENTIAL, Segment, grid, shaded

PLANE = grid((-2, 0, 2), [[x + 10 * y for x in (-2, 0, 2)] for y in (-2, 0, 2)])


def test_bilinear_functions_are_met_exactly() -> None:
    assert PLANE.at(0.3, -1.7) == pytest.approx(0.3 - 17)
    places = [-1.5, -0.5, 0.5, 1.5]
    assert PLANE.enlarged(4) == pytest.approx(np.array([[x + 10 * y for x in places] for y in places]))


def test_nothing_is_known_outside() -> None:
    assert math.isnan(PLANE.at(2.1, 0)) and math.isnan(PLANE.at(0, -2.1))


def test_what_is_not_finite_is_unknown() -> None:
    found = grid((0, 1), [[1, math.inf], [math.nan, 1e200]])
    assert found.shown.tolist() == [1]
    assert math.isnan(found.at(1, 1)) and found.at(0, 0) == 1


def test_where_numbers_fall() -> None:
    assert PLANE.first_below_zero() == 0.0
    assert grid((-1, 0, 1), [[5, 3, 1]] * 3).first_below_zero() is None
    assert grid((-1, 0, 1), [[-1, 1, -3]] * 3).first_below_zero() == pytest.approx(0.25)
    assert grid((-1, 0, 1), [[2, 1, 0]] * 3).first_below_zero() == 1.0
    assert grid((-1, 0, 1), [[2, math.nan, -1]] * 3).first_below_zero() is None
    assert grid((-1.5, 0.5, 2.5), [[1, 1, -1]] * 3).first_below_zero() == pytest.approx(1.5)


def test_a_grid_without_numbers() -> None:
    assert grid((), ()).shown.size == 0


def contour(along: Sequence[float], values: Sequence[Sequence[float]]) -> list[Segment]:
    return grid(along, values).zero_contour()


def length(segments: list[Segment]) -> float:
    return math.fsum(math.dist(*one) for one in segments)


def test_a_line_is_found_exactly() -> None:
    along = (-1.0, 0.0, 1.0)
    found = contour(along, [[x + 0.5 * y - 0.25 for x in along] for y in along])
    assert all(x + 0.5 * y == pytest.approx(0.25) for one in found for x, y in one)
    assert length(found) == pytest.approx(math.hypot(2, 1))  # from (0.75, -1) to (-0.25, 1)


def test_a_circle_is_found_and_gets_exact_with_the_grid() -> None:
    errors = []
    for points in (21, 41, 81):
        along = np.linspace(-1.5, 1.5, points).tolist()
        found = contour(along, [[1 - x * x - y * y for x in along] for y in along])
        assert all(abs(math.hypot(*place) - 1) < 6 / points**2 for one in found for place in one)
        errors.append(2 * math.pi - length(found))
    assert 0 < errors[2] < errors[1] < errors[0] < 0.05
    assert errors[0] / errors[2] == pytest.approx(16, rel=0.3)  # second order


def test_the_middle_decides_where_all_sides_are_crossed() -> None:
    third = pytest.approx(1 / 3)
    rest = pytest.approx(2 / 3)
    apart = contour((0, 1), [[1, -2], [-2, 1]])
    assert sorted(map(sorted, apart)) == [[(0.0, third), (third, 0.0)], [(rest, 1.0), (1.0, rest)]]
    joined = contour((0, 1), [[2, -1], [-1, 2]])
    assert sorted(map(sorted, joined)) == [[(0.0, rest), (third, 1.0)], [(rest, 0.0), (1.0, third)]]


def test_cells_with_an_unknown_corner_have_no_line() -> None:
    assert contour((0, 1, 2), [[-1, 1, 1], [-1, 1, math.nan], [-1, 1, 1]]) == [
        ((0.5, 0.0), (0.5, 1.0)),
        ((0.5, 1.0), (0.5, 2.0)),
    ]
    assert contour((0, 1), [[-1, math.inf], [-1, 1]]) == []


def test_nothing_is_crossed_by_a_function_that_is_0() -> None:
    assert contour((0, 1, 2), [[0.0] * 3] * 3) == []
    assert contour((), []) == contour((0,), [[1]]) == []


@given(st.lists(st.lists(st.floats(-10, 10), min_size=6, max_size=6), min_size=6, max_size=6))
def test_lines_only_end_at_the_edge(values: list[list[float]]) -> None:
    # A value of 0 counts as below; then lines may touch in corners.
    moved = [[one if abs(one) > 1e-3 else 1.0 for one in row] for row in values]
    ends: dict[tuple[float, float], int] = {}
    for one in contour(range(6), moved):
        for x, y in one:
            ends[x, y] = ends.get((x, y), 0) + 1
    for (x, y), count in ends.items():
        assert count == 2 or x in (0, 5) or y in (0, 5)


def opened(uri: str) -> Image.Image:
    head, _, body = uri.partition(",")
    assert head == "data:image/png;base64"
    return Image.open(io.BytesIO(base64.b64decode(body)))


def lightness(color: str) -> float:
    """Return L* of CIELAB, from 0 to 100."""
    parts = [int(color[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    y = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return float(116 * y ** (1 / 3) - 16)


@pytest.mark.parametrize("colors", [SEQUENTIAL, DIVERGING[5:], DIVERGING[5::-1]])
def test_lightness_falls_in_even_steps(colors: tuple[str, ...]) -> None:
    steps = -np.diff([lightness(one) for one in colors])
    assert steps.min() > 0.6 * steps.mean() and steps.max() < 1.4 * steps.mean()


def test_both_sides_of_0_are_equally_strong() -> None:
    below, above = DIVERGING[:5][::-1], DIVERGING[6:]
    assert all(abs(lightness(a) - lightness(b)) < 6 for a, b in zip(below, above, strict=True))
    assert len(DIVERGING) % 2 == 1


def test_the_picture_has_the_colors_of_its_numbers() -> None:
    """20 bands from 0 to 4: each begins at its lower end, numbers beyond take the last, NaN is gray."""
    numbers = [-9.0, 0.0, 0.19, 0.2, 3.79, 3.8, 4.0, 9.0, math.nan]
    image = opened(shaded(np.array([numbers]), ("#000000", "#ffffff"), (0, 1, 2, 3, 4))).convert("RGB")
    step = 255 / 19
    expected = [0, 0, 0, step, 18 * step, 255, 255, 255, 128]
    assert [image.getpixel((x, 0)) for x in range(9)] == [(round(one),) * 3 for one in expected]


def test_bands_have_an_edge_at_every_tick() -> None:
    near = np.array([[one + side for one in (1, 2, 3, 4) for side in (-1e-6, 1e-6)]])
    image = opened(shaded(near, SEQUENTIAL, (0, 1, 2, 3, 4, 5))).convert("RGB")
    colors = [image.getpixel((x, 0)) for x in range(8)]
    assert all(below != above for below, above in zip(colors[::2], colors[1::2], strict=True))
