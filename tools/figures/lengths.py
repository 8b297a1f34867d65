r"""The gap in the proof of Proposition 1: the mean of ||Hz|| is less than the Frobenius norm of H.

For a matrix with r equal singular values and the others 0, \( ||Hz|| / ||H||_F \) is distributed as
\( \chi_r / \sqrt r \). Its mean square is 1 for every r; its mean is \( \sqrt{2/\pi} = 0.80 \) for r = 1.
"""

from __future__ import annotations

import math
from pathlib import Path

import torch
from tools.figures.drawing import BLUE, GRAY, GREEN, ORANGE, drawing
from torch import Tensor

from soar.theory import Rows
from soar.theory.proposition_1 import expected_norm

RANKS = (1, 2, 5, 10, 50)
_SHOWN = {1: ORANGE, 5: BLUE, 50: GREEN}


def mean_length(rank: int) -> float:
    r"""Compute \( E||Hz|| / ||H||_F \) for r equal singular values.

    >>> round(mean_length(1) ** 2 * math.pi / 2, 6)
    1.0
    """
    return expected_norm(torch.ones(rank)) / math.sqrt(rank)


def density(rank: int, lengths: Tensor) -> Tensor:
    r"""Compute the density of \( ||Hz|| / ||H||_F \), that of \( \chi_r / \sqrt r \).

    Args:
        rank: r
        lengths: where, above 0
    """
    scaled = lengths * math.sqrt(rank)
    log = (
        (rank - 1) * scaled.log() - scaled.square() / 2 - (rank / 2 - 1) * math.log(2) - math.lgamma(rank / 2)
    )
    return log.exp() * math.sqrt(rank)


def table() -> Rows:
    """Compute the mean and the deviation of one sample by rank."""
    rows: Rows = []
    for rank in RANKS:
        mean = mean_length(rank)
        rows.append(
            {
                "rank": rank,
                "E||Hz|| / ||H||_F": mean,
                "sqrt(E||Hz||^2) / ||H||_F": 1.0,
                "deviation of one z / mean": math.sqrt(1 / mean**2 - 1),
            }
        )
    return rows


def draw(path: Path) -> None:
    """Draw the distribution of lengths, and their mean by rank."""
    lengths = torch.linspace(0.005, 2.6, 300, dtype=torch.float64)
    with drawing(path, width=8.4, height=3.7) as figure:
        figure.suptitle(
            "The mean of ‖Hz‖ falls short of ‖H‖$_F$, most at rank one", x=0.01, ha="left", weight="bold"
        )
        spread, means = figure.subplots(1, 2)
        spread.set_title("Which lengths one random z gives", fontsize=10, weight="normal")
        spread.set(xlabel="‖Hz‖ / ‖H‖$_F$", ylabel="density", ylim=(0, 4.2), xlim=(0, 2.6))
        spread.axvline(1, color=GRAY, linewidth=1, linestyle=":")
        for rank, color in _SHOWN.items():
            spread.plot(lengths, density(rank, lengths), color=color, label=f"rank {rank}")
            spread.plot([mean_length(rank)], [0], "^", color=color, clip_on=False, markersize=8)
        spread.plot([], [], "^", color=GRAY, label="its mean")
        spread.legend(frameon=False)
        means.set_title("Mean by rank", fontsize=10, weight="normal")
        means.set(
            xscale="log",
            xlabel="rank of H, equal singular values",
            ylabel="E‖Hz‖ / ‖H‖$_F$",
            ylim=(0.75, 1.02),
        )
        ranks = range(1, 51)
        means.plot(ranks, [mean_length(rank) for rank in ranks], "o-", color=BLUE, markersize=3)
        means.set_xticks(RANKS, [str(rank) for rank in RANKS])
        means.minorticks_off()
        means.axhline(1, color=GRAY, linewidth=1, linestyle=":")
        means.text(50, 1.003, "what the proof takes it for", color=GRAY, ha="right", va="bottom", fontsize=9)
        means.annotate(
            "$\\sqrt{2/\\pi}$ = 0.80",
            (1, mean_length(1)),
            xytext=(10, -3),
            textcoords="offset points",
            color=ORANGE,
        )
