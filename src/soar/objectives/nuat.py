"""NuAT (Sriramanan et al., 2021): a penalty on the nuclear norm of how a batch's logits change."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from soar import randomness
from soar.attacks.oracle import precise
from soar.attacks.recall import recalled
from soar.losses import cross_entropy
from soar.model_state import probing
from soar.objectives import checks
from soar.objectives.ascent import ascend
from soar.objectives.inner_passes import depends_on_mode, statistics
from soar.objectives.objective import OBJECTIVES, Objective, Output
from soar.objectives.one_step import random_corner
from soar.prediction import logits_of
from soar.threat import Threat


@OBJECTIVES.register("nuat")
class NuAT(Objective):
    r"""Cross-entropy at the image plus the nuclear norm of the change of a batch's logits under attack.

    mean_i -log p(y_i | x_i) + w / B || Z' - Z ||_*,  Z and Z' the logits at x and x', a row per example

    x' is one step of length eps, projected to the ball, that climbs sum_i -log p(y_i | x_i') + w ||Z' - Z||_*
    from x +- eps/2, a random sign per pixel; else from a random point of half the ball. Gradients of the
    loss flow through both passes.

    The nuclear norm couples the examples of a batch, and B counts those of one call: of one process and one
    micro-batch. More processes or more micro-batches therefore train another loss, the mean of norms of
    smaller matrices. The authors let w grow from 0 over the training; here it is constant.

    Three forward and three backward passes. The step uses the model in eval mode; where that differs from
    training, as with BatchNorm, one more forward pass computes Z there. BatchNorm updates its running
    statistics in the pass at the image only.

    Args:
        model: any module that maps images in [0, 1] to logits
        threat: what the adversary may do
        weight: w, the weight of the nuclear norm in the attack and in the loss
        seed: seed of the starts
    """

    couples_examples: ClassVar[bool] = True

    def __init__(self, model: nn.Module, threat: Threat, *, weight: float = 4.5, seed: int = 0) -> None:
        super().__init__(model, threat, seed=seed)
        self.required_threat()
        checks.not_negative(weight=weight)
        self.weight = weight

    def compute(self, x: Tensor, y: Tensor, index: Tensor, step: int) -> Output:
        """Predict at the image, find where the logits of the batch differ most, and predict there."""
        natural = precise(logits_of(self.model, x))
        points = recalled(lambda: self._search(x, y, natural.detach(), index, step))
        with statistics(self.model, "batch"):
            attacked = precise(logits_of(self.model, points))
        values = self.classification_loss(natural, y).mean()
        change = nuclear_norm(attacked - natural) / len(x)
        return Output(
            values + self.weight * change,
            attacked.detach(),
            {
                "cross_entropy": values.detach(),
                "nuclear_norm": change.detach(),
                "natural_accuracy": (natural.argmax(dim=1) == y).to(x.dtype).mean(),
            },
        )

    def _search(self, x: Tensor, y: Tensor, natural: Tensor, index: Tensor, step: int) -> Tensor:
        threat = self.required_threat()
        keys = randomness.key(self.seed, index, "nuat start", step)
        with_modes = depends_on_mode(self.model)
        with probing(self.model):
            if with_modes:
                with torch.no_grad():
                    natural = precise(logits_of(self.model, x))

            def height(points: Tensor) -> Tensor:
                logits = precise(logits_of(self.model, points))
                return cross_entropy(logits, y).sum() + self.weight * nuclear_norm(logits - natural)

            start = random_corner(x, threat, keys, threat.radius / 2)
            return ascend(height, threat, x, start, steps=1, step_size=threat.radius)


def nuclear_norm(matrix: Tensor) -> Tensor:
    """Return the sum of the singular values.

    >>> nuclear_norm(torch.tensor([[3.0, 0.0], [0.0, -4.0], [0.0, 0.0]]))
    tensor(7.)
    """
    norm: Tensor = torch.linalg.svdvals(matrix).sum()
    return norm
