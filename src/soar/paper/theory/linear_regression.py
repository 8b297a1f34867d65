r"""Section 2 of the paper: an over-parametrised linear model that is perfect and defenceless.

The data lie on a line, x = (x_1, 0, ..., 0), the truth is w* = (1, 0, ..., 0), and the loss of a weight
vector w is \( l = \frac12 r^2 \) with the residual \( r = \langle x, w - w^* \rangle = x_1 (w_1 - 1) \).
Nothing in the data says what the other d - 1 weights should be, so gradient descent leaves them as they were
drawn, and an adversary who may move those coordinates by eps uses them.

Corrected here: the gradient contains E[X_1^2], where the paper prints E[X_1]; the worst case contains E|r|,
where it prints E[r], which can be negative and would then reward large weights.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from soar.paper.theory.table import Rows


def descend(weights: Tensor, second_moment: float, rate: float, steps: int) -> Tensor:
    r"""Run gradient descent on the population loss \( \frac12 E[X_1^2] (w_1 - 1)^2 \).

    Args:
        weights: where to begin
        second_moment: E[X_1^2]
        rate: the learning rate
        steps: how many steps

    >>> descend(torch.tensor([0.0, 3.0]), second_moment=1.0, rate=0.5, steps=60)
    tensor([1., 3.])
    """
    found = weights.clone()
    for _ in range(steps):
        found[0] -= rate * second_moment * (found[0] - 1)
    return found


def ridge(second_moment: float, strength: float) -> float:
    r"""Give the first weight of ridge regression, \( m / (m + \lambda) \); the others are 0.

    >>> ridge(1.0, 0.25)
    0.8
    """
    return second_moment / (second_moment + strength)


def lasso(second_moment: float, strength: float) -> float:
    r"""Give the first weight of the lasso, \( \max(0, 1 - \lambda / m) \); the others are 0.

    >>> lasso(1.0, 0.25)
    0.75
    """
    return max(0.0, 1 - strength / second_moment)


def robust_loss(weights: Tensor, first_inputs: Tensor, eps: float) -> Tensor:
    r"""Give the exact worst case over the irrelevant coordinates.

    \( E \frac12 (|r| + \epsilon ||w_{2:d}||_1)^2 \)

    Args:
        weights: w
        first_inputs: samples of X_1
        eps: how far each irrelevant coordinate may move
    """
    residual = (first_inputs * (weights[0] - 1)).abs()
    return 0.5 * (residual + eps * weights[1:].abs().sum()).square().mean()


def printed_robust_loss(weights: Tensor, first_inputs: Tensor, eps: float) -> Tensor:
    r"""Give eq. 1 as printed: \( L + \epsilon E[r] ||w_{2:d}||_1 + \frac{\epsilon^2}{2} ||w_{2:d}||_1^2 \).

    Args:
        weights: w
        first_inputs: samples of X_1
        eps: how far each irrelevant coordinate may move
    """
    residual = first_inputs * (weights[0] - 1)
    reach = eps * weights[1:].abs().sum()
    return 0.5 * residual.square().mean() + residual.mean() * reach + 0.5 * reach.square()


def expansion(weights: Tensor, first_inputs: Tensor, eps: float, order: int) -> Tensor:
    """Give the worst case of the loss expanded to first or second order; the second is exact.

    Args:
        weights: w
        first_inputs: samples of X_1
        eps: how far each irrelevant coordinate may move
        order: 1, as FOAR sees it, or 2, as SOAR does
    """
    residual = first_inputs * (weights[0] - 1)
    reach = eps * weights[1:].abs().sum()
    first = 0.5 * residual.square().mean() + residual.abs().mean() * reach
    return first if order == 1 else first + 0.5 * reach.square()


def expected_attacked_loss(dimension: int, eps: float, deviation: float) -> float:
    r"""Give the mean loss under attack of what gradient descent finds, over the draw of the initial weights.

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
    """Compare what each way of fitting costs without and with an adversary, for growing dimensions."""
    generator = torch.Generator().manual_seed(0)
    first_inputs = torch.randn(10_000, generator=generator, dtype=torch.float64)
    moment = float(first_inputs.square().mean())
    rows: Rows = []
    for dimension in (10, 100, 1000, 3072):
        start = deviation * torch.randn(dimension, generator=generator, dtype=torch.float64)
        zero = torch.zeros(dimension, dtype=torch.float64)
        fits = {
            "gradient descent": descend(start, moment, 0.5, 200),
            "ridge": zero.index_fill(0, torch.tensor(0), ridge(moment, strength)),
            "lasso": zero.index_fill(0, torch.tensor(0), lasso(moment, strength)),
            "robust regulariser": zero.index_fill(0, torch.tensor(0), 1.0),
        }
        for name, weights in fits.items():
            rows.append(
                {
                    "d": dimension,
                    "fit": name,
                    "loss": float(robust_loss(weights, first_inputs, 0.0)),
                    "attacked": float(robust_loss(weights, first_inputs, eps)),
                    "expected": expected_attacked_loss(dimension, eps, deviation)
                    if name == "gradient descent"
                    else None,
                }
            )
    return rows
