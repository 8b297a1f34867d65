"""When Auto-PGD halves its step: at checkpoints, for examples whose loss no longer grows.

Croce and Hein, *Reliable evaluation of adversarial robustness with an ensemble of diverse parameter-free
attacks* (2020), section 3, with the numbers of AutoAttack's own code.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

# A window in which no more than this share of the steps went up calls for a shorter step.
_ENOUGH_RISES = 0.75


@dataclass(frozen=True)
class Pace:
    """The length of each example's next step, and what the next checkpoint decides it by."""

    length: Tensor
    loss: Tensor
    """at the last point"""
    best: Tensor
    """highest loss so far"""
    rises: Tensor
    """how many steps since the last checkpoint went up"""
    halved: Tensor
    """whether the last checkpoint halved the length"""
    best_then: Tensor
    """highest loss at the last checkpoint"""


@cache
def checkpoints(steps: int) -> tuple[int, ...]:
    """Return the numbers of steps after which the length is reconsidered.

    The first window is 0.22 of all steps, each further one 0.03 shorter, down to 0.06; all rounded down and
    at least 1.

    >>> checkpoints(100)
    (22, 41, 57, 70, 80, 87, 93, 99)
    """
    window, shrink, shortest = (max(int(share * steps), 1) for share in (0.22, 0.03, 0.06))
    found, at = [], window
    while at <= steps:
        found.append(at)
        window = max(window - shrink, shortest)
        at += window
    return tuple(found)


def first_pace(length: Tensor) -> Pace:
    """Begin with one length per example, before any evaluation.

    The first step's loss is compared with 0 and not with that of the start, as AutoAttack does; comparing
    with the start would halve some lengths at other checkpoints and lead to other numbers.
    """
    nothing = torch.zeros_like(length)
    lowest = torch.full_like(length, -torch.inf)
    # "Halved before" keeps the second condition off at the first checkpoint.
    return Pace(length, nothing, lowest, nothing, torch.ones_like(length, dtype=torch.bool), lowest)


def next_pace(pace: Pace, loss: Tensor, step: Tensor, steps: int) -> tuple[Pace, Tensor]:
    """Take the loss at the latest points, and halve the lengths that checkpoints find too long.

    At a checkpoint that ends a window of w steps a length is halved if

    (i) at most 0.75 w of the steps went up, or
    (ii) it was not halved at the last checkpoint and the highest loss has not grown since.

    Args:
        pace: so far
        loss: one per example, at the points just evaluated
        step: how many steps led to each point; 0 is the start
        steps: how many there are in all

    Returns:
        The pace now, and which lengths were halved.
    """
    window = _window_ending_at(steps, step.device)[step]
    checked = window > 0
    rises = pace.rises + ((loss > pace.loss) & (step > 0))
    best = torch.where(loss > pace.best, loss, pace.best)
    few_rises = rises <= _ENOUGH_RISES * window
    stuck = ~pace.halved & (pace.best_then >= best)
    halved = checked & (few_rises | stuck)
    return Pace(
        length=torch.where(halved, pace.length / 2, pace.length),
        loss=torch.where(step > 0, loss, pace.loss),
        best=best,
        rises=torch.where(checked, 0, rises),
        halved=torch.where(checked, halved, pace.halved),
        best_then=torch.where(checked, best, pace.best_then),
    ), halved


@cache
def _window_ending_at(steps: int, device: torch.device) -> Tensor:
    """Tabulate, for 0 ... steps, the length of the window that ends there, or 0 where none does."""
    lengths = torch.zeros(steps + 1, dtype=torch.int64, device="cpu")
    previous = 0
    for at in checkpoints(steps):
        lengths[at] = at - previous
        previous = at
    return lengths.to(device)
