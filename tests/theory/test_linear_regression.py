from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from soar import randomness
from soar.theory import linear_regression as theory


def draw(seed: int, count: int) -> Tensor:
    return randomness.normal(randomness.key(seed, 0, "theory"), (count,), torch.float64)[0]


def test_descent_learns_the_first_weight_and_leaves_the_others() -> None:
    start = draw(0, 50)
    found = theory.descend(start, second_moment=2.0, rate=0.3, steps=200)
    assert found[0].item() == pytest.approx(1)
    assert torch.equal(found[1:], start[1:])


def test_descent_follows_the_gradient_of_the_population_loss() -> None:
    # The gradient by autograd from samples, which the printed E[X_1] would miss: here it is 0.
    x1 = torch.tensor([-1.0, 1.0], dtype=torch.float64)
    w = torch.tensor([3.0, 0.5], dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(theory.robust_loss(w, x1, 0.0), w)
    step = theory.descend(w.detach(), float(x1.square().mean()), rate=0.1, steps=1) - w.detach()
    torch.testing.assert_close(step, -0.1 * slope)


@given(st.integers(0, 200), st.floats(0.001, 1))
def test_the_robust_loss_is_what_the_best_of_all_corners_reaches(seed: int, eps: float) -> None:
    w, x1 = draw(seed, 4), draw(seed + 1, 5)
    corners = torch.cartesian_prod(*[torch.tensor([-eps, eps], dtype=torch.float64)] * 3)
    residual = x1 * (w[0] - 1)
    worst = (0.5 * (residual[:, None] + corners @ w[1:]).square()).max(dim=1).values.mean()
    torch.testing.assert_close(theory.robust_loss(w, x1, eps), worst)
    torch.testing.assert_close(theory.expansion(w, x1, eps, order=2), worst)
    assert theory.expansion(w, x1, eps, order=1) <= worst + 1e-12


def test_the_printed_loss_is_too_small_where_residuals_are_negative() -> None:
    w = torch.tensor([0.0, 2.0, -1.0], dtype=torch.float64)
    x1 = torch.ones(3, dtype=torch.float64)
    assert theory.printed_robust_loss(w, x1, 0.1) < theory.robust_loss(w, x1, 0.1)
    torch.testing.assert_close(theory.printed_robust_loss(w, -x1, 0.1), theory.robust_loss(w, -x1, 0.1))


@given(st.integers(0, 200), st.floats(0.01, 0.5))
def test_robust_descent_goes_down_to_the_truth(seed: int, eps: float) -> None:
    start, x1 = draw(seed, 8), draw(seed + 1, 20)
    losses = [
        theory.robust_loss(theory.descend_robustly(start, x1, eps, steps), x1, eps).item()
        for steps in range(6)
    ]
    assert losses == sorted(losses, reverse=True)
    torch.testing.assert_close(
        theory.descend_robustly(start, x1, eps, 100), torch.eye(1, 8, dtype=torch.float64)[0]
    )


def test_robust_descent_needs_no_residual_to_remove_unused_weights() -> None:
    start = torch.tensor([1.0, 3.0, -2.0], dtype=torch.float64)
    found = theory.descend_robustly(start, draw(0, 20), 0.1, 100)
    assert found[0] == 1 and found[1:].abs().max() < 1e-20


def test_the_second_order_expansion_is_the_robust_loss_and_the_first_order_is_less() -> None:
    for row in theory.expansions():
        assert row["second order"] == pytest.approx(row["robust loss"], rel=1e-12)
        assert row["first order"] < row["robust loss"]
        assert row["eq. 1 as printed"] < theory.expansions(eps=[1e-9])[0]["robust loss"]
