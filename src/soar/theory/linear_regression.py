r"""Section 2 of the paper: an over-parametrized linear model with zero loss and no robustness.

The data lie on a line, x = (x_1, 0, ..., 0), the truth is w* = (1, 0, ..., 0), and the loss of a weight
vector w is \( l = \frac12 r^2 \) with the residual \( r = \langle x, w - w^* \rangle = x_1 (w_1 - 1) \).
Nothing in the data says what the other d - 1 weights should be, so gradient descent leaves them as they were
drawn, and an adversary that may move those coordinates by eps exploits them.

Corrected here: the gradient contains E[X_1^2], where the paper prints E[X_1]; the worst case contains E|r|,
where it prints E[r], which can be negative and would then reward large weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from soar import randomness
from soar.theory import Rows

GRADIENT_DESCENT, ROBUST = "gradient descent", "robust regularizer"


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


def descend_robustly(weights: Tensor, first_inputs: Tensor, eps: float, steps: int) -> Tensor:
    r"""Minimize the exact robust loss by proximal steps, in turn for the unused weights and the first.

    Each step minimizes the robust loss plus the squared distance to where it begins, in units in which the
    curvature of the loss is 1, so none goes up. As long as there is a residual the adversary's second term,
    \( \epsilon E|r| \, ||w_{2:d}||_1 \), works as a lasso and makes weights exactly 0, without its bias.

    Args:
        weights: where to begin
        first_inputs: samples of X_1
        eps: how far each irrelevant coordinate may move
        steps: how many times each part is moved

    >>> found = descend_robustly(torch.tensor([0.0, 3.0, -2.0]).double(), torch.ones(1).double(), 0.1, 60)
    >>> bool((found - torch.tensor([1.0, 0.0, 0.0])).abs().max() < 1e-9)
    True
    """
    found = weights.clone()
    size, moment = float(first_inputs.abs().mean()), float(first_inputs.square().mean())
    for _ in range(steps):
        residual = size * abs(float(found[0]) - 1)
        found[1:] = _shrink(found[1:], _common_shrinkage(found[1:].abs(), residual / eps))
        reach = eps * float(found[1:].abs().sum())
        found[0] = 1 + _shrink(found[0] - 1, size * reach / moment) / 2
    return found


def robust_loss(weights: Tensor, first_inputs: Tensor, eps: float) -> Tensor:
    r"""Compute the exact worst-case loss over the irrelevant coordinates.

    \( E \frac12 (|r| + \epsilon ||w_{2:d}||_1)^2 \)

    Args:
        weights: w
        first_inputs: samples of X_1
        eps: how far each irrelevant coordinate may move
    """
    residual = (first_inputs * (weights[0] - 1)).abs()
    return 0.5 * (residual + eps * weights[1:].abs().sum()).square().mean()


def printed_robust_loss(weights: Tensor, first_inputs: Tensor, eps: float) -> Tensor:
    r"""Compute eq. 1 as printed.

    \( L + \epsilon E[r] ||w_{2:d}||_1 + \frac{\epsilon^2}{2} ||w_{2:d}||_1^2 \)

    Args:
        weights: w
        first_inputs: samples of X_1
        eps: how far each irrelevant coordinate may move
    """
    residual = first_inputs * (weights[0] - 1)
    reach = eps * weights[1:].abs().sum()
    return 0.5 * residual.square().mean() + residual.mean() * reach + 0.5 * reach.square()


def expansion(weights: Tensor, first_inputs: Tensor, eps: float, order: int) -> Tensor:
    """Compute the worst case of the loss expanded to first or second order; the second is exact.

    Args:
        weights: w
        first_inputs: samples of X_1
        eps: how far each irrelevant coordinate may move
        order: 1 as in FOAR, or 2 as in SOAR
    """
    residual = first_inputs * (weights[0] - 1)
    reach = eps * weights[1:].abs().sum()
    first = 0.5 * residual.square().mean() + residual.abs().mean() * reach
    return first if order == 1 else first + 0.5 * reach.square()


def table(dimensions: Sequence[int] = (3072,), eps: float = 8 / 255, deviation: float = 1.0) -> Rows:
    """Compare the losses of gradient descent and of the robust regularizer without and with an adversary.

    Args:
        dimensions: values of d
        eps: how far each irrelevant coordinate may move
        deviation: sigma, the deviation of the initial weights
    """
    first_inputs = samples()
    rows: Rows = []
    for dimension in dimensions:
        start = deviation * _draw("weights", dimension)
        plain = descend(start, float(first_inputs.square().mean()), 0.5, 200)
        rows.append(outcome(GRADIENT_DESCENT, plain, first_inputs, eps))
        rows.append(outcome(ROBUST, descend_robustly(start, first_inputs, eps, 200), first_inputs, eps))
    return rows


def samples() -> Tensor:
    """Draw the samples of X_1 that the table is computed from."""
    return _draw("inputs", 10_000)


def outcome(fit: str, weights: Tensor, first_inputs: Tensor, eps: float) -> dict[str, Any]:
    """Return the row of a fit: its weights, and its loss without and with an adversary."""
    return {
        "d": len(weights),
        "fit": fit,
        "w_1": float(weights[0]),
        "||w_2:d||_1": float(weights[1:].abs().sum()),
        "loss": float(robust_loss(weights, first_inputs, 0.0)),
        "attacked": float(robust_loss(weights, first_inputs, eps)),
    }


def expansions(dimension: int = 100, eps: Sequence[float] = (0.001, 0.01, 8 / 255, 0.1)) -> Rows:
    """Compare the expansions with the exact robust loss, for weights during gradient descent.

    The first weight is still too small, so with inputs that are mostly positive most residuals are negative,
    and eq. 1 as printed comes out below even the loss without an adversary.

    Args:
        dimension: d
        eps: how far each irrelevant coordinate may move, several times
    """
    first_inputs = 1 + samples()
    weights = 0.1 * _draw("weights", dimension)
    weights[0] = 0.5
    return [
        {
            "eps": radius,
            "robust loss": float(robust_loss(weights, first_inputs, radius)),
            "first order": float(expansion(weights, first_inputs, radius, order=1)),
            "second order": float(expansion(weights, first_inputs, radius, order=2)),
            "eq. 1 as printed": float(printed_robust_loss(weights, first_inputs, radius)),
        }
        for radius in eps
    ]


def _draw(purpose: str, count: int) -> Tensor:
    return randomness.normal(randomness.key(0, 0, f"theory {purpose}"), (count,), torch.float64)[0]


def _shrink(values: Tensor, amount: float) -> Tensor:
    """Soft-threshold values: move them toward 0 by an amount, and not past it."""
    return values.sign() * (values.abs() - amount).clamp(min=0)


def _common_shrinkage(sizes: Tensor, least: float) -> float:
    r"""Solve \( \theta = c + \sum_i \max(|w_i| - \theta, 0) \) for the threshold of the proximal step.

    If only the k largest stay above theta it is \( (c + \sum_{i \le k} |w_i|) / (k + 1) \), and the right k
    is the one for which that is largest.
    """
    largest = sizes.sort(descending=True).values
    sums = least + torch.cat([torch.zeros(1, dtype=sizes.dtype, device="cpu"), largest.cumsum(dim=0)])
    return float((sums / torch.arange(1, len(sums) + 1, device="cpu")).max())
