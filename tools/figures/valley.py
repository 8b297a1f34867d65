r"""Section 2 of the paper in two dimensions: a perfect fit whose loss is a valley along the data.

The data lie on the line \( x_2 = 0 \) and y = x_1. With the weights (1, w) the loss is
\( \frac12 (w x_2)^2 \): it is 0, and flat, on every point of the data, and rises on both sides of them.
"""

from __future__ import annotations

import math
from pathlib import Path

import torch
from tools.figures.drawing import BLUE, GRAY, GREEN, ORANGE, drawing
from torch import Tensor

from soar.theory import Rows
from soar.theory.linear_regression import expansion, robust_loss

EPS = 0.5
WEIGHT = 2.0
_LEVELS = (0.1, 0.5, 1.0, 1.8)
_ON_THE_LINE = (-1.6, -0.9, -0.3, 0.4, 0.8, 1.5)


def table() -> Rows:
    """Compute the loss, the loss under attack, and its first- and second-order expansions."""
    inputs = torch.tensor(_ON_THE_LINE, dtype=torch.float64)
    rows: Rows = []
    for fit, weight in (("gradient descent", WEIGHT), ("robust", 0.0)):
        weights = torch.tensor([1.0, weight], dtype=torch.float64)
        rows.append(
            {
                "fit": fit,
                "w_2": weight,
                "loss": float(robust_loss(weights, inputs, 0.0)),
                "attacked": float(robust_loss(weights, inputs, EPS)),
                "first order": float(expansion(weights, inputs, EPS, order=1)),
                "second order": float(expansion(weights, inputs, EPS, order=2)),
            }
        )
    return rows


def across(weight: float, offsets: Tensor) -> Tensor:
    r"""Compute the loss beside the data, \( \frac12 (w x_2)^2 \).

    >>> across(2.0, torch.tensor([0.0, 0.5]))
    tensor([0.0000, 0.5000])
    """
    return 0.5 * (weight * offsets).square()


def draw(path: Path) -> None:
    """Draw the valley from above and in a cut."""
    offsets = torch.linspace(-1, 1, 101)
    with drawing(path, width=8.4, height=3.9) as figure:
        figure.suptitle(
            "No loss and no slope on the data, a wall beside them", x=0.01, ha="left", weight="bold"
        )
        above, cut = figure.subplots(1, 2)
        above.set_title("Loss of a perfect fit, seen from above", fontsize=10, weight="normal")
        above.set(xlabel="$x_1$, the coordinate that matters", ylabel="$x_2$, one that does not")
        above.set(xlim=(-2, 2), ylim=(-1, 1))
        for level in _LEVELS:
            height = math.sqrt(2 * level) / WEIGHT
            above.axhline(height, color=GRAY, linewidth=0.8)
            above.axhline(-height, color=GRAY, linewidth=0.8)
            above.text(2.05, height, f"loss {level:g}", color=GRAY, va="center", fontsize=8)
        above.plot(_ON_THE_LINE, [0] * len(_ON_THE_LINE), "o", color=BLUE)
        above.text(-1.6, -0.06, "data", color=BLUE, ha="center", va="top")
        for place in _ON_THE_LINE:
            above.annotate("", (place, EPS), (place, 0.03), arrowprops={"arrowstyle": "->", "color": ORANGE})
        above.text(-1.95, EPS + 0.02, "adversary", color=ORANGE, va="bottom")
        cut.set_title("The same, cut across the data", fontsize=10, weight="normal")
        cut.set(xlabel="$x_2$", ylabel="loss", ylim=(-0.1, 3.0))
        cut.axvspan(-EPS, EPS, color=GRAY, alpha=0.12, linewidth=0)
        cut.text(0, 1.95, "within reach, $|x_2| \\leq \\epsilon$", ha="center", va="top", fontsize=9)
        cut.plot(offsets, across(WEIGHT, offsets), color=ORANGE, label="gradient descent, $w_2 = 2$")
        cut.plot(offsets, across(WEIGHT, offsets), ":", color=BLUE, label="its second-order expansion")
        cut.plot(offsets, 0 * offsets, color=GREEN, label="robust fit, $w_2 = 0$")
        cut.plot(offsets, 0 * offsets, ":", color=GRAY, label="first-order expansion of either")
        cut.legend(frameon=False, fontsize=8, loc="upper center")
