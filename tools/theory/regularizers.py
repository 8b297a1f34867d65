"""Generic regularizers of linear regression beside the robust one, which alone is not biased."""

from __future__ import annotations

import math

import torch

from soar.theory import Rows, linear_regression

RIDGE, LASSO = "ridge", "lasso"
DIMENSIONS = (10, 100, 1000, 3072)


def ridge(second_moment: float, strength: float) -> float:
    r"""Return the first weight of ridge regression, \( m / (m + \lambda) \); the others are 0.

    >>> ridge(1.0, 0.25)
    0.8
    """
    return second_moment / (second_moment + strength)


def lasso(second_moment: float, strength: float) -> float:
    r"""Return the first weight of the lasso, \( \max(0, 1 - \lambda / m) \); the others are 0.

    >>> lasso(1.0, 0.25)
    0.75
    """
    return max(0.0, 1 - strength / second_moment)


def expected_attacked_loss(dimension: int, eps: float, deviation: float) -> float:
    r"""Compute the expected loss under attack of the weights that gradient descent finds.

    Over the initial weights it is
    \( \frac{\epsilon^2 \sigma^2}{2} [(d - 1) + (d - 1)(d - 2) \frac{2}{\pi}] \), which grows as \( d^2 \).

    Args:
        dimension: d
        eps: how far each irrelevant coordinate may move
        deviation: sigma, the deviation of the initial weights

    >>> round(expected_attacked_loss(2, 1.0, 1.0), 3)  # one irrelevant weight: E w^2 / 2
    0.5
    """
    others = dimension - 1
    return 0.5 * eps**2 * deviation**2 * (others + others * (others - 1) * 2 / math.pi)


def table(eps: float = 8 / 255, deviation: float = 1.0, strength: float = 0.1) -> Rows:
    """Compare the losses of several fits without and with an adversary, for growing dimensions.

    Args:
        eps: how far each irrelevant coordinate may move
        deviation: sigma, the deviation of the initial weights
        strength: lambda of ridge and lasso
    """
    first_inputs = linear_regression.samples()
    moment = float(first_inputs.square().mean())
    rows: Rows = []
    for dimension in DIMENSIONS:
        descent, robust = linear_regression.table([dimension], eps, deviation)
        only_first = torch.eye(1, dimension, dtype=torch.float64)[0]
        biased = {RIDGE: ridge(moment, strength), LASSO: lasso(moment, strength)}
        others = [
            linear_regression.outcome(name, weight * only_first, first_inputs, eps)
            for name, weight in biased.items()
        ]
        expected = {
            "expected": expected_attacked_loss(dimension, eps, deviation),
            "eps^2 d^2 sigma^2 / pi": (eps * dimension * deviation) ** 2 / math.pi,
        }
        rows.append({**descent, **expected})
        rows += [{**row, **dict.fromkeys(expected)} for row in (*others, robust)]
    return rows
