from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tools.theory.expansion import SecondOrderExpansion, corner_free_bound, expand
from torch import Tensor, nn

from soar import randomness
from soar.theory.proposition_1 import expected_norm, norm_bound


def numbers(seed: int, *shape: int) -> Tensor:
    return randomness.normal(randomness.key(seed, 0, "theory test"), shape, torch.float64)[0]


def quadratic(seed: int, dimension: int, *, convex: bool = False) -> SecondOrderExpansion:
    square = numbers(seed, dimension, dimension)
    hessian = square.T @ square / dimension if convex else (square + square.T) / 2
    return SecondOrderExpansion(numbers(seed + 1, dimension), hessian)


def brute_force(expansion: SecondOrderExpansion, radius: float) -> float:
    """Look everywhere in a disc."""
    angle = torch.linspace(0, 2 * torch.pi, 4001, dtype=torch.float64)
    circle = torch.stack([angle.cos(), angle.sin()], dim=1)
    lengths = torch.linspace(0, radius, 101, dtype=torch.float64)
    return float(expansion.at((lengths[:, None, None] * circle).reshape(-1, 2)).max())


@given(st.integers(0, 10_000), st.floats(0.01, 10))
def test_the_l2_maximum_is_that_found_by_looking_everywhere(seed: int, radius: float) -> None:
    expansion = quadratic(seed, 2)
    best = brute_force(expansion, radius)
    found = expansion.maximum_in_l2_ball(radius)
    assert found >= best - 1e-12
    assert found == pytest.approx(best, rel=1e-3, abs=1e-3 * radius**2)


@given(st.integers(0, 10_000), st.floats(0.1, 3))
def test_the_l2_maximum_is_that_of_a_general_optimizer(seed: int, radius: float) -> None:
    import scipy.optimize

    expansion = quadratic(seed, 6)
    hessian, gradient = expansion.hessian.numpy(), expansion.gradient.numpy()
    # Maximizers satisfy (m I - H) delta = g with m I - H positive semidefinite and |delta| = rho.
    top = max(0.0, float(expansion.spectrum.values[-1]))
    eye = torch.eye(6, dtype=torch.float64)

    def excess(shift: float) -> float:
        delta = torch.linalg.solve((top + shift) * eye - expansion.hessian, expansion.gradient)
        return float(delta.norm()) - radius

    shift = scipy.optimize.brentq(excess, 1e-9, 1e3, xtol=1e-14)
    delta = torch.linalg.solve((top + shift) * eye - expansion.hessian, expansion.gradient).numpy()
    value = gradient @ delta + 0.5 * delta @ hessian @ delta
    assert expansion.maximum_in_l2_ball(radius) == pytest.approx(value, rel=1e-8)


@pytest.mark.parametrize(
    "gradient, diagonal, radius, maximum",
    [
        ([3.0, 4.0], [0.0, 0.0], 2.0, 10.0),  # flat: rho ||g||
        ([0.0, 0.0], [1.0, 4.0], 3.0, 18.0),  # no slope: along the largest eigenvalue
        ([0.0, 0.0], [-1.0, -4.0], 3.0, 0.0),  # concave: stay
        ([1.0, 0.0], [-2.0, -4.0], 3.0, 0.25),  # the top is inside the ball
        ([2.0, 0.0], [0.0, 4.0], 3.0, 18.5),  # the hard case: no slope along the strongest curvature
    ],
)
def test_the_l2_maximum_in_the_special_cases(
    gradient: list[float], diagonal: list[float], radius: float, maximum: float
) -> None:
    expansion = SecondOrderExpansion(torch.tensor(gradient).double(), torch.tensor(diagonal).double().diag())
    assert expansion.maximum_in_l2_ball(radius) == pytest.approx(maximum, abs=1e-9)


@given(st.integers(0, 10_000), st.floats(0.05, 2), st.booleans())
def test_climbing_stays_below_the_maximum_and_reaches_it_in_few_dimensions(
    seed: int, eps: float, convex: bool
) -> None:
    expansion = quadratic(seed, 7, convex=convex)
    starts = expansion.starts(eps, numbers(seed + 2, 24, 7), vectors=3)
    reached = expansion.climb_in_linf_ball(eps, starts)
    assert reached <= expansion.maximum_in_l2_ball(eps * 7**0.5) + 1e-9
    assert reached >= float(expansion.at(starts).max()) - 1e-12, "no step goes down"
    if convex:
        assert reached == pytest.approx(expansion.maximum_at_corners(eps), rel=1e-9)


def test_climbing_finds_a_top_inside_the_ball() -> None:
    expansion = SecondOrderExpansion(
        torch.tensor([1.0, 0.0]).double(), torch.tensor([-4.0, -1.0]).double().diag()
    )
    assert expansion.climb_in_linf_ball(1.0, torch.ones(1, 2).double()) == pytest.approx(1 / 8)


@pytest.mark.parametrize("dimension, sign", [(17, 1.0), (2, -1.0)])
def test_corners_are_tried_only_where_that_is_right(dimension: int, sign: float) -> None:
    with pytest.raises(ValueError, match="few convex dimensions"):
        SecondOrderExpansion(torch.zeros(dimension), sign * torch.eye(dimension)).maximum_at_corners(1.0)


def test_expanding_a_quadratic_loss_gives_it_back() -> None:
    wanted = quadratic(3, 12)
    x = numbers(4, 1, 3, 2, 2)

    def loss(points: Tensor) -> Tensor:
        return wanted.at(points.flatten(1) - x.flatten(1))

    found = expand(loss, x, chunk=5)
    torch.testing.assert_close(found.gradient, wanted.gradient)
    torch.testing.assert_close(found.hessian, wanted.hessian)


def test_expanding_a_smooth_network_agrees_with_the_hessian_of_torch() -> None:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = nn.Sequential(nn.Conv2d(1, 3, 2), nn.Tanh(), nn.Flatten(), nn.Linear(12, 2)).double()
    x = numbers(5, 1, 1, 3, 3)

    def loss(points: Tensor) -> Tensor:
        logits: Tensor = model(points)
        return logits.logsumexp(dim=1)

    dense = torch.autograd.functional.hessian(lambda point: loss(point).sum(), x).reshape(9, 9)
    torch.testing.assert_close(expand(loss, x, chunk=4).hessian, dense)


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
