"""A randomised model seen through the mean of several answers."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from soar.prediction import logits_of


class Averaged(nn.Module):
    """Asks a model several times and gives the mean of its logits (expectation over transformation).

    An attack on a randomised model that follows one answer's slope follows noise, and a point that fools one
    answer out of many has proved little. Both are about the mean here.

    Args:
        model: any module that maps images to logits
        samples: how often to ask
    """

    def __init__(self, model: nn.Module, samples: int) -> None:
        super().__init__()
        self.model, self.samples = model, samples

    def forward(self, x: Tensor) -> Tensor:
        """Give the mean of the logits."""
        return torch.stack([logits_of(self.model, x) for _ in range(self.samples)]).mean(dim=0)
