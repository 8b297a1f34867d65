from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from soar.report.drawing.contours import Segment, chains, contour


def length(segments: list[Segment]) -> float:
    return math.fsum(math.dist(*one) for one in segments)


def test_a_line_is_found_exactly() -> None:
    along = (-1.0, 0.0, 1.0)
    found = contour(along, [[x + 0.5 * y - 0.25 for x in along] for y in along])
    assert all(x + 0.5 * y == pytest.approx(0.25) for one in found for x, y in one)
    assert length(found) == pytest.approx(math.hypot(2, 1))  # from (0.75, -1) to (-0.25, 1)


def test_a_level_other_than_0() -> None:
    assert contour((0, 1), [[0, 4], [0, 4]], level=3) == [((0.75, 0.0), (0.75, 1.0))]


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


def test_a_circle_is_one_closed_line_and_two_lines_are_two() -> None:
    along = np.linspace(-1.5, 1.5, 21).tolist()
    circle = contour(along, [[1 - x * x - y * y for x in along] for y in along])
    (chain,) = chains(circle)
    assert chain[0] == chain[-1] and len(chain) == len(circle) + 1
    lines = chains(contour(along, [[1 - x * x for x in along] for _ in along]))
    assert [len(one) for one in lines] == [21, 21]


@given(st.lists(st.lists(st.integers(-2, 2), min_size=5, max_size=5), min_size=5, max_size=5))
def test_chains_hold_each_segment_once(values: list[list[int]]) -> None:
    segments = contour(range(5), values)
    joined = [one for chain in chains(segments) for one in pairwise(chain)]
    assert sorted(tuple(sorted(one)) for one in joined) == sorted(tuple(sorted(one)) for one in segments)
