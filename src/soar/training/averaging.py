"""An exponential moving average of a model's weights."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn


class Average:
    """A copy of a model that follows it slowly.

    After update number t the average moves by 1 - d towards the model, with d = min(decay, t / (t + 9)): a
    short memory at the start, so that the first random weights are soon forgotten. Statistics of BatchNorm
    are averaged as well, whole numbers are copied.

    Args:
        model: what to follow
        decay: the longest memory, such as 0.995

    >>> follower = Average(torch.nn.Linear(1, 1), decay=0.5)
    >>> [follower.decay_at(step) for step in (1, 3, 9, 1000)]
    [0.1, 0.25, 0.5, 0.5]
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self.model = copy.deepcopy(model).eval().requires_grad_(False)
        averages, current = self.model.state_dict(), model.state_dict()
        self._pairs: list[tuple[Tensor, Tensor]] = [(averages[name], current[name]) for name in averages]

    def decay_at(self, step: int) -> float:
        """Return the share of the old average that update number `step`, from 1, keeps."""
        return min(self.decay, step / (step + 9))

    @torch.no_grad()
    def update(self, step: int) -> None:
        """Follow the model after update number `step`, from 1."""
        weight = 1 - self.decay_at(step)
        for average, value in self._pairs:
            if average.is_floating_point():
                average.lerp_(value, weight)
            else:
                average.copy_(value)
