"""CURE (Moosavi-Dezfooli et al., 2019): a penalty on curvature along the direction of the gradient."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from soar import curvature
from soar.double_backward import FastDoubleBackward
from soar.objectives import checks
from soar.objectives.inner_passes import LossAt, full_precision, regularized, statistics
from soar.objectives.objective import OBJECTIVES, Objective, Output
from soar.shapes import per_example
from soar.threat import Threat


@OBJECTIVES.register("cure")
class CURE(Objective):
    r"""Cross-entropy plus the squared change of its input gradient one step uphill (curvature).

    mean_i [ l(x_i) + w || g(x_i + h z_i) - g(x_i) ||_2^2 ],  z_i = v_i / ||v_i||_2

    with v the steepest ascent of the threat, the sign of the gradient for linf and the gradient for l2; z
    is not differentiated. Gradients are per example, whatever the batch size. Two forward passes, each with
    a gradient that is differentiated again. Both gradients are taken in training mode; BatchNorm updates its
    running statistics in the pass at the image only.

    It is meant for fine-tuning a trained network over some epochs, while h grows.

    Args:
        model: any module that maps images in [0, 1] to logits
        threat: what the adversary may do; only its norm matters here
        penalty_weight: w, the weight of the penalty
        fd_step: h, the l2 length of the finite-difference step
        fd_warmup_steps: h grows linearly over this many updates
        seed: not used; nothing here is random
    """

    allows_bfloat16: ClassVar[bool] = False
    differentiates_twice: ClassVar[bool] = True

    def __init__(
        self,
        model: nn.Module,
        threat: Threat,
        *,
        penalty_weight: float = 4.0,
        fd_step: float = 1.5,
        fd_warmup_steps: int = 0,
        seed: int = 0,
    ) -> None:
        super().__init__(model, threat, seed=seed)
        self.required_threat()
        checks.positive(fd_step=fd_step)
        checks.not_negative(penalty_weight=penalty_weight)
        checks.count(least=0, fd_warmup_steps=fd_warmup_steps)
        self.penalty_weight, self.fd_step, self.fd_warmup_steps = penalty_weight, fd_step, fd_warmup_steps

    def compute(self, x: Tensor, y: Tensor, index: Tensor, step: int) -> Output:  # noqa: ARG002
        """Compare the gradient at the image with that one step uphill."""
        loss_at = LossAt(self.model, y)
        with full_precision(x.device), FastDoubleBackward():
            _, gradient = curvature.input_gradient(loss_at, x, differentiable=True)
            uphill = x + self.length(step) * self._direction(gradient.detach())
            with statistics(self.model, "batch"):
                _, further = curvature.input_gradient(loss_at, uphill, differentiable=True)
        change = (further - gradient).flatten(1).square().sum(dim=1)
        logits = loss_at.logits[0]
        return regularized(
            self.classification_loss(logits, y),
            self.penalty_weight * change,
            logits,
            gradient_norm=torch.linalg.vector_norm(gradient.detach().flatten(1), dim=1),
        )

    def length(self, step: int) -> float:
        """Return h for an update.

        Args:
            step: how many updates came before this one
        """
        return (
            self.fd_step * min(1.0, (step + 1) / self.fd_warmup_steps)
            if self.fd_warmup_steps
            else self.fd_step
        )

    def _direction(self, gradient: Tensor) -> Tensor:
        """Return z, of l2 length 1; zero where the gradient is zero."""
        v = self.required_threat().ascent(gradient)
        length = torch.linalg.vector_norm(v.flatten(1), dim=1).clamp(min=torch.finfo(v.dtype).tiny)
        return v / per_example(length, v)
