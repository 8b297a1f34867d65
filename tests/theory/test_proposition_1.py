from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from soar.theory import proposition_1 as theory
from soar.theory.proposition_1 import expected_norm
from tests.curvature.losses import normal


@given(st.integers(1, 100_000), st.floats(1e-4, 1))
def test_the_counterexample_breaks_the_printed_bound_in_every_dimension_and_for_every_eps(
    dimension: int, eps: float
) -> None:
    found = theory.counterexample(dimension, eps)
    maximum = (dimension * eps**2 + 1) ** 2 / 2
    assert found["maximum"] == pytest.approx(maximum) and found["bounds it"] == "NO"
    assert found["printed"] == pytest.approx(math.sqrt(2 / math.pi) * maximum)
    assert found["corrected"] == pytest.approx(maximum)
    assert found["mean square"] == pytest.approx(maximum)


def test_a_constant_loss_breaks_it_below_the_radius_where_it_should() -> None:
    # (rho^2 + 1) sqrt(2 / pi) < 1, that is d eps^2 < sqrt(pi / 2) - 1.
    limit = math.sqrt((math.sqrt(math.pi / 2) - 1) / 3072)
    for factor, holds in ((0.999, False), (1.001, True)):
        row = theory.compare("constant", 3072, factor * limit, 1.0, torch.ones(1, 1).double(), 1.0)
        assert row["bounds it"] == ("yes" if holds else "NO")


@pytest.mark.parametrize("rank", [1, 2, 3, 10, 785])
def test_the_expected_norm_of_equal_singular_values_is_that_of_a_chi_distribution(rank: int) -> None:
    mean = math.sqrt(2) * math.exp(math.lgamma((rank + 1) / 2) - math.lgamma(rank / 2))
    assert expected_norm(torch.full((rank,), 3.0)) == pytest.approx(3 * mean, rel=1e-10)


@given(st.lists(st.floats(0, 100), min_size=1, max_size=8))
def test_the_expected_norm_lies_between_root_two_over_pi_and_one(values: list[float]) -> None:
    singular = torch.tensor(values, dtype=torch.float64)
    frobenius = float(singular.norm())
    assert math.sqrt(2 / math.pi) * frobenius * (1 - 1e-9) <= expected_norm(singular)
    assert expected_norm(singular) <= frobenius * (1 + 1e-9)


def test_the_expected_norm_is_the_mean_over_samples() -> None:
    singular = torch.tensor([5.0, 1.0, 0.2], dtype=torch.float64)
    samples = (normal(0, 200_000, 3) * singular).norm(dim=1)
    assert expected_norm(singular) == pytest.approx(float(samples.mean()), rel=0.01)


def test_nothing_has_no_norm() -> None:
    assert expected_norm(torch.zeros(3)) == 0
