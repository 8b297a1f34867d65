"""LLR (Qin et al., 2019): a penalty on how far the loss is from linear around the image."""

from __future__ import annotations

from fractions import Fraction
from typing import ClassVar

from torch import Tensor, nn

from soar import curvature, randomness
from soar.attacks.recall import recalled
from soar.double_backward import FastDoubleBackward
from soar.losses import cross_entropy
from soar.model_state import probing
from soar.objectives import checks
from soar.objectives.ascent import Ascent
from soar.objectives.inner_passes import depends_on_mode, full_precision, statistics
from soar.objectives.objective import OBJECTIVES, Objective, Output
from soar.prediction import logits_of
from soar.threat import Threat


@OBJECTIVES.register("llr")
class LLR(Objective):
    r"""Cross-entropy plus the worst error of its linear expansion, plus the expansion's own change there.

    mean_i [ l(x_i) + a |l(x_i + d_i) - l(x_i) - d_i^T g_i| + b |d_i^T g_i| ]
    d_i climbs |l(x_i + d) - l(x_i) - d^T g_i| inside the ball

    k + 2 forward passes with k steps of the search. Only the gradient g at the image is differentiated a
    second time; the search and the pass at x + d need first derivatives alone. The search sees the model in
    eval mode; where that differs from training, as with BatchNorm, g is computed there once more. The pass
    that counts for BatchNorm's statistics is that at the image.

    Args:
        model: any module that maps images in [0, 1] to logits
        threat: what the adversary may do, linf or l2
        linearity_weight: a, the weight of the error of the linear expansion
        gradient_weight: b, the weight of the change that the linear expansion itself predicts
        steps: how many steps the search takes
        step_size: the length of a step, such as "2/255"; by default as in PGD
        seed: seed of the random starts
    """

    allows_bfloat16: ClassVar[bool] = False

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
        self.linearity_weight, self.gradient_weight = linearity_weight, gradient_weight
        self.ascent = Ascent(steps, step_size)

    def compute(self, x: Tensor, y: Tensor, index: Tensor, step: int) -> Output:
        """Expand the loss at the image, find where it differs most from that, and compare."""
        answers: list[Tensor] = []

        def loss_at(images: Tensor) -> Tensor:
            answers.append(logits_of(self.model, images))
            return cross_entropy(answers[-1], y)

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
        classified = self.classification_loss(answers[0], y)
        penalty = self.linearity_weight * violation + self.gradient_weight * predicted.abs()
        logits = answers[0].detach()
        return Output(
            (classified + penalty).mean(),
            logits,
            {
                "cross_entropy": classified.detach().mean(),
                "violation": violation.detach().mean(),
                "predicted_change": predicted.detach().abs().mean(),
                "confidence": logits.softmax(dim=1).amax(dim=1).mean(),
            },
        )

    def _search(
        self, x: Tensor, y: Tensor, values: Tensor, gradient: Tensor, *, index: Tensor, step: int
    ) -> Tensor:
        threat = self.required_threat()
        with_modes = depends_on_mode(self.model)

        def loss_at(points: Tensor) -> Tensor:
            return cross_entropy(logits_of(self.model, points), y)

        with probing(self.model):
            if with_modes:
                values, gradient = curvature.input_gradient(loss_at, x)
            start = threat.random_start(x, randomness.key(self.seed, index, "llr start", step))
            return self.ascent.climb(
                lambda points: (loss_at(points) - values - along(gradient, points - x)).abs(),
                threat,
                x,
                start,
            )


def along(gradient: Tensor, delta: Tensor) -> Tensor:
    r"""Return \( \delta^T g \), one number an example."""
    return (gradient * delta).flatten(1).sum(dim=1)
