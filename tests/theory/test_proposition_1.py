from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from soar.theory import proposition_1 as theory
from soar.theory.expansion import SecondOrderExpansion


@given(st.integers(1, 100_000), st.floats(1e-4, 1))
def test_the_counterexample_breaks_the_printed_bound_in_every_dimension_and_for_every_eps(
    dimension: int, eps: float
) -> None:
    case = theory.counterexample(dimension, eps)
    maximum = (dimension * eps**2 + 1) ** 2 / 2
    assert case.loss + case.maximum == pytest.approx(maximum)
    found = theory.bounds(case)
    assert found["printed"] == pytest.approx(math.sqrt(2 / math.pi) * maximum)
    assert found["corrected"] == pytest.approx(maximum)
    assert found["mean square"] == pytest.approx(maximum)


@pytest.mark.parametrize("gradient, curvature", [(0.3, 0.09), (0.0, 2.0), (1.5, 0.0)])
def test_a_loss_along_the_diagonal_stands_for_the_dense_one(gradient: float, curvature: float) -> None:
    dimension, eps = 6, 0.3
    case = theory.along_the_diagonal("", dimension, eps, loss=0.0, gradient=gradient, curvature=curvature)
    v = torch.full((dimension,), dimension**-0.5, dtype=torch.float64)
    dense = SecondOrderExpansion(gradient * v, curvature * torch.outer(v, v))
    assert case.maximum == pytest.approx(dense.maximum_at_corners(eps))
    assert case.maximum == pytest.approx(dense.maximum_in_l2_ball(eps * dimension**0.5))
    wanted = torch.cat([torch.zeros(dimension - 1), case.expansion.singular_values]).sort().values
    torch.testing.assert_close(dense.singular_values.sort().values, wanted, atol=1e-12, rtol=1e-9)


@given(st.integers(0, 500), st.floats(0.01, 2))
def test_corrected_bounds_hold_for_random_losses(seed: int, eps: float) -> None:
    case = theory.random_quadratic(6, eps, seed)
    found = theory.bounds(case)
    for name in ("corrected", "mean square"):
        assert case.loss + case.maximum <= found[name] + 1e-9


def test_the_table_shows_where_the_printed_bound_fails() -> None:
    rows = theory.table()
    assert [row["bounds it"] for row in rows] == ["NO", "NO", "NO", "yes", "yes", "NO", "yes", "yes"]
    for row in rows:
        assert row["maximum"] <= min(row["corrected"], row["mean square"]) * (1 + 1e-9)


def test_a_constant_loss_breaks_it_below_the_radius_where_it_should() -> None:
    # (rho^2 + 1) sqrt(2 / pi) < 1, that is d eps^2 < sqrt(pi / 2) - 1.
    limit = math.sqrt((math.sqrt(math.pi / 2) - 1) / 3072)
    for factor, holds in ((0.999, False), (1.001, True)):
        case = theory.along_the_diagonal("", 3072, factor * limit, loss=1.0, gradient=0.0, curvature=0.0)
        assert (theory.bounds(case)["printed"] >= 1) == holds
