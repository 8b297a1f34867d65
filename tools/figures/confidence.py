r"""The same classifier with larger logits: its loss goes flat up to the boundary, its margin does not.

Logistic regression at distance 2 from the boundary, logits multiplied by k. With s the distance moved towards
the boundary the loss is \( \log(1 + e^{-k (2 - s)}) \), and 1/k of it tends to max(0, s - 2).
"""

from __future__ import annotations

from pathlib import Path

import torch
from tools.figures.drawing import BLUE, GRAY, GREEN, ORANGE, drawing
from torch import Tensor

from soar.losses import cross_entropy
from soar.theory import Rows
from soar.theory.logistic_regression import loss

DISTANCE = 2.0
FACTORS = (1.0, 2.0, 4.0, 8.0, 16.0)
_SHOWN = {1.0: BLUE, 4.0: GREEN, 16.0: ORANGE}


def loss_after(moved: Tensor, factor: float) -> Tensor:
    """Compute the loss after moving toward the boundary.

    Args:
        moved: s, how far
        factor: k, on the logits

    >>> loss_after(torch.tensor([2.0]), 5.0)  # on the boundary, log 2
    tensor([0.6931])
    """
    return loss(factor * (DISTANCE - moved), torch.ones_like(moved))


def slope_seen(factor: float) -> float:
    """Compute the derivative at the image that an attack on the cross-entropy sees in float32.

    >>> slope_seen(1.0) > 0, slope_seen(16.0)
    (True, 0.0)
    """
    moved = torch.zeros(1, requires_grad=True)
    logits = torch.stack([factor * (DISTANCE - moved), torch.zeros_like(moved)], dim=1)
    (slope,) = torch.autograd.grad(cross_entropy(logits, torch.zeros(1, dtype=torch.int64)).sum(), moved)
    return abs(float(slope))


def table() -> Rows:
    """Compute the confidence and both derivatives by factor; the boundary is at the same place for all."""
    rows: Rows = []
    for factor in FACTORS:
        doubt = float(torch.tensor(-DISTANCE * factor, dtype=torch.float64).sigmoid())
        rows.append(
            {
                "logits x": factor,
                "1 - confidence": doubt,
                "slope of the loss": factor * doubt,
                "seen in float32": slope_seen(factor),
                "slope of the margin": -factor,
            }
        )
    return rows


def draw(path: Path) -> None:
    """Draw loss and margin, both divided by the factor, on the way to the boundary and beyond."""
    moved = torch.linspace(0, 3, 121, dtype=torch.float64)
    with drawing(path, width=8.4, height=3.7) as figure:
        figure.suptitle("Louder logits flatten the loss, not the network", x=0.01, ha="left", weight="bold")
        losses, margins = figure.subplots(1, 2)
        for axes in (losses, margins):
            axes.set(xlabel="distance moved towards the boundary", xlim=(0, 3))
            axes.axvline(DISTANCE, color=GRAY, linewidth=1, linestyle=":")
        for factor, color in _SHOWN.items():
            losses.plot(moved, loss_after(moved, factor) / factor, color=color, label=f"logits x {factor:g}")
        losses.set_title("Cross-entropy: at the image no slope is left", fontsize=10, weight="normal")
        losses.set(ylabel="loss / factor", ylim=(0, 1.4))
        losses.text(DISTANCE - 0.05, 1.38, "boundary", color=GRAY, ha="right", va="top")
        losses.legend(frameon=False, loc="upper left", bbox_to_anchor=(0, 0.9))
        margins.set_title("Margin: the same slope for every factor", fontsize=10, weight="normal")
        margins.plot(moved, DISTANCE - moved, color=ORANGE)
        margins.axhline(0, color=GRAY, linewidth=1)
        margins.set(ylabel="margin / factor")
        margins.text(DISTANCE - 0.05, 1.9, "boundary", color=GRAY, ha="right", va="top")
