r"""Logistic regression: where everything about SOAR can be written down (eq. 12 of the paper).

With f = sigmoid(<w, x>), r = f - y and u = f (1 - f), the loss along delta is exactly quadratic up to second
order: \( l + r \, w^T \delta + \frac{u}{2} (w^T \delta)^2 \). Both coefficients vanish as the model grows
confident, so a penalty on them can be met by larger logits as well as by a flatter model.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from soar.theory import Rows

_DISTANCE = 2.0


def loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Return the negative log-probability of the label, 0 or 1, exact for tiny probabilities.

    >>> loss(torch.tensor([0.0, 40.0]), torch.tensor([0.0, 1.0]))
    tensor([6.9315e-01, 4.2484e-18])
    """
    return F.softplus((1 - 2 * labels) * logits)


def second_order_maximum(
    logits: Tensor, labels: Tensor, weight_norm: Tensor | float, radius: float
) -> Tensor:
    r"""Compute the maximum of the second-order expansion over an l2 ball.

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
    """Compute the true worst loss over an l2 ball: the logit moves by rho ||w||, away from the label.

    >>> exact_maximum(torch.tensor([0.0]), torch.tensor([1.0]), 1.0, 1.0)  # log(1 + e)
    tensor([1.3133])
    """
    return loss(logits - (2 * labels - 1) * radius * weight_norm, labels)


def table(radius: float, factors: Sequence[float] = (1.0, 2.0, 4.0, 8.0, 16.0)) -> Rows:
    """Compute how confidence switches the regularizer off while the adversary stays.

    A model with its logits multiplied by k is the same classifier with the same boundary, here at a distance
    of 2 from a correctly classified point. The penalty is the rise of the second-order maximum above the
    loss. Beside it is the paper's remedy: first move half of rho toward the boundary, then expand with the
    other half. It brings the penalty back for good only where that move crosses the boundary.

    Args:
        radius: rho
        factors: values of k
    """
    rows: Rows = []
    label = torch.tensor(1.0, dtype=torch.float64, device="cpu")
    for factor in factors:
        logit = torch.tensor(_DISTANCE * factor, dtype=torch.float64, device="cpu")
        started = torch.tensor((_DISTANCE - radius / 2) * factor, dtype=torch.float64, device="cpu")
        here = loss(logit, label)
        rows.append(
            {
                "logits x": factor,
                "confidence": float(logit.sigmoid()),
                "loss": float(here),
                "penalty": float(second_order_maximum(logit, label, factor, radius) - here),
                "penalty at start": float(
                    second_order_maximum(started, label, factor, radius / 2) - loss(started, label)
                ),
                "worst rise": float(exact_maximum(logit, label, factor, radius) - here),
            }
        )
    return rows
