"""Ordinary training: the loss at the clean images."""

from __future__ import annotations

from torch import Tensor

from soar.objectives.objective import OBJECTIVES, Objective, Output
from soar.prediction import logits_of


@OBJECTIVES.register("standard")
class Standard(Objective):
    """Cross-entropy at the clean images; no defense, the point of comparison.

    mean_i -log p(y_i | x_i)

    One forward and one backward pass. The threat plays no part in the loss; it says against what the
    trainer validates.

    >>> import torch
    >>> Standard(torch.nn.Flatten())(torch.zeros(2, 1, 2, 2), torch.tensor([0, 1])).loss
    tensor(1.3863)
    """

    def compute(self, x: Tensor, y: Tensor, index: Tensor, step: int) -> Output:  # noqa: ARG002
        """Return the mean cross-entropy."""
        logits = logits_of(self.model, x)
        return Output(self.classification_loss(logits, y).mean(), logits.detach(), {})
