"""The bounds of Proposition 1 on losses whose maximum is known."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tools.theory.cases import cases, random_quadratic
from tools.theory.expansion import SecondOrderExpansion

from soar.theory import proposition_1 as theory


@pytest.mark.parametrize("gradient, curvature", [(0.3, 0.09), (0.0, 2.0), (1.5, 0.0)])
def test_a_loss_along_the_diagonal_stands_for_the_dense_one(gradient: float, curvature: float) -> None:
    dimension, eps = 6, 0.3
    case = theory.along_the_diagonal("", dimension, eps, loss=0.0, gradient=gradient, curvature=curvature)
    v = torch.full((dimension,), dimension**-0.5, dtype=torch.float64)
    dense = SecondOrderExpansion(gradient * v, curvature * torch.outer(v, v))
    assert case.maximum == pytest.approx(dense.maximum_at_corners(eps))
    assert case.maximum == pytest.approx(dense.maximum_in_l2_ball(eps * dimension**0.5))
    wanted = (
        torch.cat([torch.zeros(dimension - 1), torch.linalg.eigvalsh(case.augmented).abs()]).sort().values
    )
    torch.testing.assert_close(dense.singular_values.sort().values, wanted, atol=1e-12, rtol=1e-9)


@given(st.integers(0, 500), st.floats(0.01, 2))
def test_corrected_bounds_hold_for_random_losses(seed: int, eps: float) -> None:
    case = random_quadratic(6, eps, seed)
    found = theory.bounds(case)
    for name in ("corrected", "mean square"):
        assert case.loss + case.maximum <= found[name] + 1e-9


def test_the_table_shows_where_the_printed_bound_fails() -> None:
    rows = theory.table(cases())
    assert [row["bounds it"] for row in rows] == ["NO", "NO", "NO", "yes", "yes", "NO", "yes", "yes"]
    for row in rows:
        assert row["maximum"] <= min(row["corrected"], row["mean square"]) * (1 + 1e-9)
