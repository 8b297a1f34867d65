from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from soar.theory.bounds import corner_free_bound, expected_norm, norm_bound
from tests.theory.test_expansion import numbers, quadratic


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
    samples = (numbers(0, 200_000, 3) * singular).norm(dim=1)
    assert expected_norm(singular) == pytest.approx(float(samples.mean()), rel=0.01)


def test_nothing_has_no_norm() -> None:
    assert expected_norm(torch.zeros(3)) == 0


@given(st.integers(0, 10_000), st.floats(0.01, 5))
def test_the_chain_of_the_proof_holds(seed: int, radius: float) -> None:
    expansion = quadratic(seed, 5)
    singular = expansion.singular_values
    exact = expansion.maximum_in_l2_ball(radius)
    spectral = norm_bound(float(singular.max()), radius)
    frobenius = norm_bound(float(singular.norm()), radius)
    assert exact <= spectral + 1e-9 <= frobenius + 2e-9
    assert exact <= corner_free_bound(expansion, radius) + 1e-9
    assert frobenius <= norm_bound(math.sqrt(math.pi / 2) * expected_norm(singular), radius) + 1e-9
