from __future__ import annotations

import math

import numpy as np
import pytest

from soar.report.drawing.grids import grid

SLOPE = grid((-2, 0, 2), [[x + 10 * y for x in (-2, 0, 2)] for y in (-2, 0, 2)])


def test_bilinear_functions_are_met_exactly() -> None:
    assert SLOPE.at(0.3, -1.7) == pytest.approx(0.3 - 17)
    places = [-1.5, -0.5, 0.5, 1.5]
    assert SLOPE.enlarged(4) == pytest.approx(np.array([[x + 10 * y for x in places] for y in places]))


def test_nothing_is_known_outside() -> None:
    assert math.isnan(SLOPE.at(2.1, 0)) and math.isnan(SLOPE.at(0, -2.1))


def test_what_is_not_finite_is_unknown() -> None:
    found = grid((0, 1), [[1, math.inf], [math.nan, 1e200]])
    assert found.shown.tolist() == [1]
    assert math.isnan(found.at(1, 1)) and found.at(0, 0) == 1


def test_where_numbers_fall() -> None:
    assert SLOPE.first_below() == 0.0
    assert grid((-1, 0, 1), [[5, 3, 1]] * 3).first_below() is None
    assert grid((-1, 0, 1), [[-1, 1, -3]] * 3).first_below() == pytest.approx(0.25)
    assert grid((-1, 0, 1), [[2, 1, 0]] * 3).first_below() == 1.0
    assert grid((-1, 0, 1), [[2, math.nan, -1]] * 3).first_below() is None
    assert grid((-1.5, 0.5, 2.5), [[1, 1, -1]] * 3).first_below() == pytest.approx(1.5)


def test_a_grid_without_numbers() -> None:
    assert grid((), ()).shown.size == 0
