"""FOAR: the first-order counterpart of SOAR, a penalty on the dual norm of the input gradient."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor, nn

from soar.curvature import input_gradient
from soar.double_backward import FastDoubleBackward
from soar.objectives.alignment import cosine
from soar.objectives.inner_passes import LossAt, regularized
from soar.objectives.objective import OBJECTIVES, Objective, Output
from soar.objectives.starts import Start
from soar.threat import Threat


@OBJECTIVES.register("foar")
class FOAR(Objective):
    """Cross-entropy plus eps times the dual norm of its input gradient (first-order regularization).

    mean_i [ l(x_i') + eps_R * ||grad l(x_i')||_* ],  eq. 4 of the SOAR paper,

    the maximum of the linear expansion of the loss over the ball of radius eps_R: the l1 norm for linf, the
    l2 norm for l2. One forward and two backward passes, plus one of each per PGD step of the start.
    BatchNorm updates its running statistics in the pass at x' only.

    The metrics explain a run that goes wrong: a penalty near 0 at a high confidence means that the softmax
    has saturated, which hides the gradient instead of flattening the loss. `alignment`, where a single step
    leads to x', is the mean cosine between the gradients where that step begins and ends.

    Args:
        model: any module that maps images in [0, 1] to logits, twice differentiable where it is curved
        threat: what the adversary may do
        init: the point x' where the loss is expanded: zero, random, pgd-K or nfgsm
        init_eps_fraction: the radius of the start's ball as a fraction of eps
        penalty_eps_fraction: eps_R as a fraction of eps; by default what the start leaves. The penalty is
            proportional to it, so it is also the weight of the penalty and may exceed 1
        seed: seed of the random starts
    """

    differentiates_twice: ClassVar[bool] = True

    def __init__(
        self,
        model: nn.Module,
        threat: Threat,
        *,
        init: str = "pgd-1",
        init_eps_fraction: float = 0.5,
        penalty_eps_fraction: float | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(model, threat, seed=seed)
        self.required_threat()
        self.init = Start(init, init_eps_fraction, penalty_eps_fraction)

    def compute(self, x: Tensor, y: Tensor, index: Tensor, step: int) -> Output:
        """Find x', then return cross-entropy and penalty there."""
        threat = self.required_threat()
        points, start_gradient = self.init.find(
            self.model, threat, x, y, index=index, seed=self.seed, step=step
        )
        loss_at = LossAt(self.model, y)
        with FastDoubleBackward():
            _, gradient = input_gradient(loss_at, points.detach(), differentiable=True)
        norm = threat.dual_norm(gradient)
        logits = loss_at.logits[0]
        penalty = self.init.remaining * threat.radius * norm
        metrics = {"gradient_norm": norm}
        if start_gradient is not None:
            metrics["alignment"] = cosine(start_gradient, gradient.detach())
        return regularized(self.classification_loss(logits, y), penalty, logits, **metrics)
