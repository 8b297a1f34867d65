r"""Logistic regression: where everything about SOAR can be written down (eq. 12 of the paper).

With f = sigmoid(<w, x>), r = f - y and u = f (1 - f), the loss along delta is exactly quadratic up to second
order: \( l + r \, w^T \delta + \frac{u}{2} (w^T \delta)^2 \). Both coefficients vanish as the model grows
confident, so a penalty on them can be met by larger logits as well as by a flatter model.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from soar.paper.theory.table import Rows


def loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Give -log of the probability of the label, 0 or 1."""
    return F.softplus(logits) - labels * logits


def second_order_maximum(
    logits: Tensor, labels: Tensor, weight_norm: Tensor | float, radius: float
) -> Tensor:
    r"""Give the maximum of the second-order expansion over an l2 ball.

    \( l + \rho |r| \, ||w|| + \frac{\rho^2}{2} u ||w||^2 \)

    Args:
        logits: <w, x>
        labels: 0 or 1
        weight_norm: ||w||
        radius: rho

    >>> second_order_maximum(torch.tensor([0.0]), torch.tensor([1.0]), 1.0, 1.0)  # log 2 + 1/2 + 1/8
    tensor([1.3181])
    """
    f = logits.sigmoid()
    r, u = f - labels, f * (1 - f)
    return loss(logits, labels) + radius * r.abs() * weight_norm + radius**2 / 2 * u * weight_norm**2


def exact_maximum(logits: Tensor, labels: Tensor, weight_norm: Tensor | float, radius: float) -> Tensor:
    """Give the true worst loss over an l2 ball: the logit moves by at most rho ||w||, away from the label.

    >>> exact_maximum(torch.tensor([0.0]), torch.tensor([1.0]), 1.0, 1.0)  # log(1 + e)
    tensor([1.3133])
    """
    return loss(logits - (2 * labels - 1) * radius * weight_norm, labels)


def table(radius: float = 1.0) -> Rows:
    """Show how confidence switches the regulariser off while the adversary stays.

    A model with its logits multiplied by k is the same classifier with the same boundary; its penalty falls
    towards 0 for a right answer, and the loss that an adversary reaches does not.
    """
    rows: Rows = []
    for factor in (1.0, 2.0, 4.0, 8.0, 16.0):
        logit, label = torch.tensor([[2.0 * factor], [1.0]], dtype=torch.float64)
        norm = factor
        here = loss(logit, label)
        rows.append(
            {
                "logits x": factor,
                "confidence": float(logit.sigmoid()),
                "loss": float(here),
                "penalty": float(second_order_maximum(logit, label, norm, radius) - here),
                "worst loss, rho 1": float(exact_maximum(logit, label, norm, radius)),
                "worst loss, rho 3": float(exact_maximum(logit, label, norm, 3 * radius)),
            }
        )
    return rows
