from __future__ import annotations

import pytest
import torch

from soar.theory import linear_regression as theory
from tests.curvature.losses import normal
from tools.theory import regularizers


def test_expected_attacked_loss_is_the_mean_over_initial_weights() -> None:
    d, eps, sigma = 20, 0.1, 0.5
    start = sigma * normal(3, 200_000).reshape(-1, d)
    losses = 0.5 * (eps * start[:, 1:].abs().sum(dim=1)).square()
    assert regularizers.expected_attacked_loss(d, eps, sigma) == pytest.approx(losses.mean().item(), rel=0.02)


def test_ridge_and_lasso_minimize_their_losses() -> None:
    moment, strength = 1.7, 0.4
    grid = torch.linspace(0, 1, 100_001, dtype=torch.float64)
    fit = 0.5 * moment * (grid - 1) ** 2
    assert grid[(fit + strength / 2 * grid**2).argmin()].item() == pytest.approx(
        regularizers.ridge(moment, strength), abs=1e-4
    )
    assert grid[(fit + strength * grid).argmin()].item() == pytest.approx(
        regularizers.lasso(moment, strength), abs=1e-4
    )


def test_the_table_tells_the_story() -> None:
    rows = regularizers.table()
    found = {(row["d"], row["fit"]): row for row in rows}
    for d in regularizers.DIMENSIONS:
        descent, robust = found[d, theory.GRADIENT_DESCENT], found[d, theory.ROBUST]
        assert descent["loss"] < 1e-12 and robust["loss"] == robust["attacked"] == 0
        assert found[d, regularizers.RIDGE]["loss"] > 1e-4, "generic regularizers are biased"
        assert found[d, regularizers.LASSO]["w_1"] < 1
    large, small = found[3072, theory.GRADIENT_DESCENT], found[100, theory.GRADIENT_DESCENT]
    assert 500 < large["attacked"] / small["attacked"] < 1500, "it grows as the square of the dimension"
    assert large["expected"] == pytest.approx(large["eps^2 d^2 sigma^2 / pi"], rel=1e-3)
