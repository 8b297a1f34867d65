"""The bounds of Proposition 1 on losses whose maximum is known."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tools.theory.cases import along_the_diagonal, random_quadratic, table
from tools.theory.expansion import SecondOrderExpansion

from soar.theory.proposition_1 import compare


@pytest.mark.parametrize("gradient, curvature", [(0.3, 0.09), (0.0, 2.0), (1.5, 0.0)])
def test_a_loss_along_the_diagonal_stands_for_the_dense_one(gradient: float, curvature: float) -> None:
    dimension, eps = 6, 0.3
    row = along_the_diagonal("", dimension, eps, loss=0.0, gradient=gradient, curvature=curvature)
    v = torch.full((dimension,), dimension**-0.5, dtype=torch.float64)
    dense = SecondOrderExpansion(gradient * v, curvature * torch.outer(v, v))
    assert row["maximum"] == pytest.approx(dense.maximum_at_corners(eps))
    assert row["maximum"] == pytest.approx(dense.maximum_in_l2_ball(eps * dimension**0.5))
    wanted = compare("", dimension, eps, 0.0, dense.augmented, row["maximum"])
    for name in ("printed", "corrected", "mean square"):
        assert row[name] == pytest.approx(wanted[name], rel=1e-9)


@given(st.integers(0, 500), st.floats(0.01, 2))
def test_corrected_bounds_hold_for_random_losses(seed: int, eps: float) -> None:
    row = random_quadratic(6, eps, seed)
    for name in ("corrected", "mean square"):
        assert row["maximum"] <= row[name] + 1e-9


def test_the_table_shows_where_the_printed_bound_fails() -> None:
    rows = table()
    assert [row["bounds it"] for row in rows] == ["NO", "NO", "NO", "yes", "yes", "NO", "yes", "yes"]
    for row in rows:
        assert row["maximum"] <= min(row["corrected"], row["mean square"]) * (1 + 1e-9)
