"""FOAR: the first-order sibling of SOAR, a penalty on the dual norm of the input gradient."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from soar.curvature import input_gradient
from soar.double_backward import FastDoubleBackward
from soar.losses import cross_entropy
from soar.objectives import checks
from soar.objectives.objective import OBJECTIVES, Objective, Output
from soar.objectives.starts import Start
from soar.prediction import logits_of
from soar.threat import Threat


@OBJECTIVES.register("foar")
class FOAR(Objective):
    """Cross-entropy plus eps times the dual norm of its input gradient (first-order regularization).

    mean_i [ l(x_i') + w * eps_R * ||grad l(x_i')||_* ],  eq. 4 of the SOAR paper,

    the maximum of the linear expansion of the loss over the ball of radius eps_R: the l1 norm for linf, the
    l2 norm for l2. One forward and two backward passes, and as many of each again as the start has steps.
    The one pass that counts for BatchNorm's statistics is that at x'.

    The metrics explain a run that goes wrong: a penalty near 0 at a high confidence means that the softmax
    has saturated, which hides the gradient instead of flattening the loss.

    Args:
        model: any module that maps images in [0, 1] to logits, twice differentiable where it is curved
        threat: what the adversary may do, linf or l2
        start: where the loss is expanded: zero, random or pgd-K
        start_share: the part of eps that the start takes
        penalty_share: the part of eps that the penalty is for; by default the rest
        weight: a factor on the penalty
        seed: seed of the random starts
    """

    def __init__(
        self,
        model: nn.Module,
        threat: Threat,
        *,
        start: str = "pgd-1",
        start_share: float = 0.5,
        penalty_share: float | None = None,
        weight: float = 1.0,
        seed: int = 0,
    ) -> None:
        super().__init__(model, threat, seed=seed)
        self.required_threat()
        checks.not_negative(weight=weight)
        self.start = Start(start, start_share, penalty_share)
        self.weight = weight

    def compute(self, x: Tensor, y: Tensor, index: Tensor, step: int) -> Output:
        """Find x', then give cross-entropy and penalty there."""
        threat = self.required_threat()
        points = self.start.points(self.model, threat, x, y, index=index, seed=self.seed, step=step)
        answers: list[Tensor] = []

        def loss_at(images: Tensor) -> Tensor:
            answers.append(logits_of(self.model, images))
            return cross_entropy(answers[-1], y)

        with FastDoubleBackward():
            _, gradient = input_gradient(loss_at, points.detach(), differentiable=True)
        norm = threat.dual_norm(gradient)
        penalty = self.weight * self.start.remaining * threat.radius * norm
        classified = self.classification_loss(answers[0], y)
        logits = answers[0].detach()
        return Output(
            (classified + penalty).mean(),
            logits,
            {
                "cross_entropy": classified.detach().mean(),
                "penalty": penalty.detach().mean(),
                "gradient_norm": norm.detach().mean(),
                "confidence": torch.softmax(logits, dim=1).amax(dim=1).mean(),
            },
        )
