"""LLR (Qin et al., 2019): a penalty on how far the loss is from linear around the image."""

from __future__ import annotations

from fractions import Fraction
from typing import ClassVar

from torch import Tensor, nn

from soar import curvature, randomness
from soar.attacks.recall import recalled
from soar.double_backward import FastDoubleBackward
from soar.model_state import probing
from soar.objectives import checks
from soar.objectives.ascent import ascend
from soar.objectives.inner_passes import LossAt, depends_on_mode, full_precision, regularized, statistics
from soar.objectives.objective import OBJECTIVES, Objective, Output
from soar.threat import Threat


@OBJECTIVES.register("llr")
class LLR(Objective):
    r"""Cross-entropy plus the largest error of its linear expansion, plus the predicted change there.

    mean_i [ l(x_i) + a |l(x_i + d_i) - l(x_i) - d_i^T g_i| + b |d_i^T g_i| ]
    d_i maximizes |l(x_i + d) - l(x_i) - d^T g_i| inside the ball

    k + 2 forward passes with k steps of the search. Only the gradient g at the image is differentiated a
    second time; the search and the pass at x + d need first derivatives alone. The search uses the model in
    eval mode; where that differs from training, as with BatchNorm, g is computed there once more. BatchNorm
    updates its running statistics in the pass at the image only.

    Args:
        model: any module that maps images in [0, 1] to logits
        threat: what the adversary may do
        linearity_weight: a, the weight of the error of the linear expansion
        gradient_weight: b, the weight of the change that the linear expansion itself predicts
        steps: how many steps the search takes
        step_size: the length of a step, such as "2/255"; by default as in PGD
        seed: seed of the random starts
    """

    allows_bfloat16: ClassVar[bool] = False
    differentiates_twice: ClassVar[bool] = True

    def __init__(
        self,
        model: nn.Module,
        threat: Threat,
        *,
        linearity_weight: float = 4.0,
        gradient_weight: float = 3.0,
        steps: int = 10,
        step_size: str | float | Fraction | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(model, threat, seed=seed)
        self.required_threat()
        checks.not_negative(linearity_weight=linearity_weight, gradient_weight=gradient_weight)
        checks.count(steps=steps)
        self.linearity_weight, self.gradient_weight = linearity_weight, gradient_weight
        self.steps, self.step_size = steps, checks.length(step_size=step_size)

    def compute(self, x: Tensor, y: Tensor, index: Tensor, step: int) -> Output:
        """Expand the loss at the image, find where it differs most from the expansion, and compare."""
        loss_at = LossAt(self.model, y)
        with full_precision(x.device):
            with FastDoubleBackward():
                values, gradient = curvature.input_gradient(loss_at, x, differentiable=True)
            points = recalled(
                lambda: self._search(x, y, values.detach(), gradient.detach(), index=index, step=step)
            )
            with statistics(self.model, "batch"):
                reached = loss_at(points)
        predicted = along(gradient, points - x)
        violation = (reached - values - predicted).abs()
        penalty = self.linearity_weight * violation + self.gradient_weight * predicted.abs()
        logits = loss_at.logits[0]
        return regularized(
            self.classification_loss(logits, y),
            penalty,
            logits,
            violation=violation,
            predicted_change=predicted.abs(),
        )

    def _search(
        self, x: Tensor, y: Tensor, values: Tensor, gradient: Tensor, *, index: Tensor, step: int
    ) -> Tensor:
        threat = self.required_threat()
        with_modes = depends_on_mode(self.model)
        with probing(self.model):
            if with_modes:
                values, gradient = curvature.input_gradient(LossAt(self.model, y), x)
            start = threat.random_start(x, randomness.key(self.seed, index, "llr start", step))

            def violation(points: Tensor) -> Tensor:
                return (LossAt(self.model, y)(points) - values - along(gradient, points - x)).abs()

            return ascend(violation, threat, x, start, steps=self.steps, step_size=self.step_size)


def along(gradient: Tensor, delta: Tensor) -> Tensor:
    r"""Return \( \delta^T g \), one value per example."""
    return (gradient * delta).flatten(1).sum(dim=1)
