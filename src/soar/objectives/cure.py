"""CURE (Moosavi-Dezfooli et al., 2019): a penalty on curvature along the direction of the gradient."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from soar import curvature
from soar.double_backward import FastDoubleBackward
from soar.losses import cross_entropy
from soar.objectives import checks
from soar.objectives.inner_passes import full_precision, statistics
from soar.objectives.objective import OBJECTIVES, Objective, Output
from soar.prediction import logits_of
from soar.shapes import per_example
from soar.threat import Threat


@OBJECTIVES.register("cure")
class CURE(Objective):
    r"""Cross-entropy plus the squared change of its input gradient one step uphill (curvature).

    mean_i [ l(x_i) + w || g(x_i + h z_i) - g(x_i) ||_2^2 ],  z_i = v_i / ||v_i||_2

    with v the steepest ascent of the threat, the sign of the gradient for linf and the gradient for l2; z
    is not differentiated. Each example's gradient is its own, whatever the size of the batch. Two forward
    passes, each with a gradient that is differentiated again. Both gradients are taken in training mode;
    the pass that counts for BatchNorm's statistics is that at the image.

    It is meant for fine-tuning a trained network over some epochs, while h grows.

    Args:
        model: any module that maps images in [0, 1] to logits
        threat: what the adversary may do; only its norm plays a part here
        weight: w, the weight of the penalty
        step: h, the Euclidean length of the step uphill
        ramp_steps: h grows linearly for so many updates
        seed: not used; nothing here is random
    """

    allows_bfloat16: ClassVar[bool] = False

    def __init__(
        self,
        model: nn.Module,
        threat: Threat,
        *,
        weight: float = 4.0,
        step: float = 1.5,
        ramp_steps: int = 0,
        seed: int = 0,
    ) -> None:
        super().__init__(model, threat, seed=seed)
        self.required_threat()
        checks.positive(step=step)
        checks.not_negative(weight=weight)
        checks.count(least=0, ramp_steps=ramp_steps)
        self.weight, self.step, self.ramp_steps = weight, step, ramp_steps

    def compute(self, x: Tensor, y: Tensor, index: Tensor, step: int) -> Output:  # noqa: ARG002
        """Compare the gradient at the image with that one step uphill."""
        answers: list[Tensor] = []

        def loss_at(images: Tensor) -> Tensor:
            answers.append(logits_of(self.model, images))
            return cross_entropy(answers[-1], y)

        with full_precision(x.device), FastDoubleBackward():
            _, gradient = curvature.input_gradient(loss_at, x, differentiable=True)
            uphill = x + self.length(step) * self._direction(gradient.detach())
            with statistics(self.model, "batch"):
                _, further = curvature.input_gradient(loss_at, uphill, differentiable=True)
        change = (further - gradient).flatten(1).square().sum(dim=1)
        classified = self.classification_loss(answers[0], y)
        logits = answers[0].detach()
        return Output(
            (classified + self.weight * change).mean(),
            logits,
            {
                "cross_entropy": classified.detach().mean(),
                "penalty": self.weight * change.detach().mean(),
                "gradient_norm": torch.linalg.vector_norm(gradient.detach().flatten(1), dim=1).mean(),
                "confidence": logits.softmax(dim=1).amax(dim=1).mean(),
            },
        )

    def length(self, step: int) -> float:
        """Return h for an update.

        Args:
            step: updates made before this one
        """
        return self.step * min(1.0, (step + 1) / self.ramp_steps) if self.ramp_steps else self.step

    def _direction(self, gradient: Tensor) -> Tensor:
        """Return z, of Euclidean length 1; where there is no slope there is no direction either."""
        v = self.required_threat().ascent(gradient)
        length = torch.linalg.vector_norm(v.flatten(1), dim=1).clamp(min=torch.finfo(v.dtype).tiny)
        return v / per_example(length, v)
