"""Training on the quadratic upper bound of the cross-entropy in the logits, in place of itself."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from soar.attacks.oracle import precise
from soar.attacks.recall import recalled
from soar.objectives import checks
from soar.objectives.alignment import watched
from soar.objectives.inner_passes import statistics
from soar.objectives.objective import OBJECTIVES, Objective, Output
from soar.objectives.one_step import noisy_step
from soar.prediction import logits_of
from soar.threat import Threat


@OBJECTIVES.register("qub")
class QUB(Objective):
    r"""A quadratic upper bound of the attacked cross-entropy, expanded at the logits of the image.

    mean_i [ c b(z_i, z_i') + (1 - c) l(z_i') ],  b = l(z) + (z' - z)^T (p - t) + 1/4 ||z' - z||^2 >= l(z')

    with z the logits at the image, p their softmax, z' the logits at the point x' of `NFGSM`, and t the label
    as a distribution, smoothed where labels are. The bound holds because the Hessian of the cross-entropy
    by the logits is at most 1/2 (arXiv 2601.13645). It punishes logits that move, also where the loss does
    not; gradients flow through both passes, and nothing is differentiated twice.

    Three forward and three backward passes. The step to x' uses the model in eval mode; BatchNorm updates its
    running statistics in the pass at the image only. The metric `alignment` is the mean cosine between the
    gradient of the cross-entropy at the start and that of the training loss at x'.

    Args:
        model: any module that maps images in [0, 1] to logits
        threat: what the adversary may do
        blend: c, the weight of the bound; the cross-entropy at x' itself has 1 - c
        seed: seed of the noise
    """

    def __init__(self, model: nn.Module, threat: Threat, *, blend: float = 1.0, seed: int = 0) -> None:
        super().__init__(model, threat, seed=seed)
        self.required_threat()
        checks.fraction(blend=blend)
        self.blend = blend

    def compute(self, x: Tensor, y: Tensor, index: Tensor, step: int) -> Output:
        """Predict at the image and at the attacked point, and bound the loss there."""
        threat = self.required_threat()
        found = recalled(lambda: noisy_step(self.model, threat, x, y, index=index, seed=self.seed, step=step))
        points, alignment = watched(*found)
        natural = precise(logits_of(self.model, x))
        with statistics(self.model, "batch"):
            attacked = precise(logits_of(self.model, points))
        target = (1 - self.label_smoothing) * F.one_hot(y, natural.shape[1]).to(natural.dtype)
        bound = quadratic_bound(natural, attacked, target + self.label_smoothing / natural.shape[1])
        reached = self.classification_loss(attacked, y)
        return Output(
            (self.blend * bound + (1 - self.blend) * reached).mean(),
            attacked.detach(),
            {
                "cross_entropy": reached.detach().mean(),
                "bound": bound.detach().mean(),
                "alignment": alignment,
            },
        )


def quadratic_bound(logits: Tensor, moved: Tensor, target: Tensor) -> Tensor:
    r"""Return \( l(z) + (z' - z)^T (p - t) + \frac14 ||z' - z||^2 \), never below the cross-entropy l(z').

    Args:
        logits: z, where the cross-entropy is expanded; p after the softmax
        moved: z'
        target: t, the probabilities that the cross-entropy compares with

    >>> import torch
    >>> quadratic_bound(torch.zeros(1, 2), torch.tensor([[0.0, 2.0]]), torch.tensor([[1.0, 0.0]]))
    tensor([2.6931])
    """
    change = moved - logits
    linear = (change * (logits.softmax(dim=1) - target)).sum(dim=1)
    return F.cross_entropy(logits, target, reduction="none") + linear + change.square().sum(dim=1) / 4
