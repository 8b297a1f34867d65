"""TRADES (Zhang et al., 2019) and MART (Wang et al., 2020): penalize how predictions change under attack."""

from __future__ import annotations

from fractions import Fraction

import torch
from torch import Tensor, nn

from soar.attacks.recall import recalled
from soar.losses import cross_entropy, kl_divergence, log_other, strongest_targets
from soar.model_state import probing
from soar.objectives import checks
from soar.objectives.ascent import ascend, near
from soar.objectives.inner_passes import depends_on_mode, statistics
from soar.objectives.objective import OBJECTIVES, Objective, Output
from soar.prediction import logits_of
from soar.threat import Threat


@OBJECTIVES.register("trades")
class TRADES(Objective):
    r"""Cross-entropy at the image plus the KL divergence of the prediction under attack from that one.

    mean_i [ -log p(y_i | x_i) + beta KL( p(. | x_i) || p(. | x_i') ) ],  x' maximizes the same divergence

    The divergence is summed over classes, and its gradient flows through both predictions. k + 2 forward and
    backward passes with k steps. The attack compares with one prediction, computed once. It uses the model in
    eval mode; where that differs from training, as with BatchNorm, one more forward pass computes that
    prediction. BatchNorm updates its running statistics in the pass at the image only.

    Args:
        model: any module that maps images in [0, 1] to logits
        threat: what the adversary may do
        beta: the weight of the divergence; more is more robust and less accurate
        steps: how many steps the attack takes
        step_size: the length of a step, such as "2/255"; by default as in PGD
        seed: seed of the starts, a thousandth away from the image
    """

    def __init__(
        self,
        model: nn.Module,
        threat: Threat,
        *,
        beta: float = 6.0,
        steps: int = 10,
        step_size: str | float | Fraction | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(model, threat, seed=seed)
        self.required_threat()
        checks.not_negative(beta=beta)
        checks.count(steps=steps)
        self.beta, self.steps, self.step_size = beta, steps, checks.length(step_size=step_size)

    def compute(self, x: Tensor, y: Tensor, index: Tensor, step: int) -> Output:
        """Predict at the image, find where the prediction differs most, and predict there."""
        natural = logits_of(self.model, x)
        points = recalled(lambda: self._search(x, natural.detach(), index, step))
        with statistics(self.model, "batch"):
            attacked = logits_of(self.model, points)
        values = self.classification_loss(natural, y)
        divergence = kl_divergence(attacked, natural)
        return Output(
            (values + self.beta * divergence).mean(),
            attacked.detach(),
            {
                "cross_entropy": values.detach().mean(),
                "divergence": divergence.detach().mean(),
                "natural_accuracy": (natural.argmax(dim=1) == y).to(x.dtype).mean(),
            },
        )

    def _search(self, x: Tensor, natural: Tensor, index: Tensor, step: int) -> Tensor:
        threat = self.required_threat()
        start = near(x, threat, index=index, seed=self.seed, step=step)
        with_modes = depends_on_mode(self.model)
        with probing(self.model):
            if with_modes:
                with torch.no_grad():
                    natural = logits_of(self.model, x)
            return ascend(
                lambda points: kl_divergence(logits_of(self.model, points), natural),
                threat,
                x,
                start,
                steps=self.steps,
                step_size=self.step_size,
            )


@OBJECTIVES.register("mart")
class MART(Objective):
    r"""Boosted cross-entropy at attacked points plus a divergence weighted by 1 - p_y at the image.

    mean_i [ -log q_y - log(1 - q_k) + beta (1 - p_y) KL(p || q) ],  p at x_i, q at x_i' = PGD(x_i)

    with k the likeliest wrong class at x'. Gradients flow through everything. k + 2 forward and backward
    passes with k steps of the attack on cross-entropy, which uses the model in eval mode. BatchNorm updates
    its running statistics in the pass at the image only.

    Logarithms of 1 - q_k and 1 - p_y are taken as the logsumexp of the other classes' log-probabilities.
    They are exact for any logits that float32 holds, so no constant is added that would cut off the gradient
    of confident mistakes or hide a NaN.

    Args:
        model: any module that maps images in [0, 1] to logits
        threat: what the adversary may do
        beta: the weight of the divergence
        steps: how many steps the attack takes
        step_size: the length of a step, such as "2/255"; by default as in PGD
        seed: seed of the starts, a thousandth away from the image
    """

    def __init__(
        self,
        model: nn.Module,
        threat: Threat,
        *,
        beta: float = 5.0,
        steps: int = 10,
        step_size: str | float | Fraction | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(model, threat, seed=seed)
        self.required_threat()
        checks.not_negative(beta=beta)
        checks.count(steps=steps)
        self.beta, self.steps, self.step_size = beta, steps, checks.length(step_size=step_size)

    def compute(self, x: Tensor, y: Tensor, index: Tensor, step: int) -> Output:
        """Attack the batch, then compare the predictions at the points and at the images."""
        points = recalled(lambda: self._search(x, y, index, step))
        natural = logits_of(self.model, x)
        with statistics(self.model, "batch"):
            attacked = logits_of(self.model, points)
        rival = strongest_targets(attacked.detach(), y, y.new_zeros(len(y)))
        boosted = self.classification_loss(attacked, y) - log_other(attacked, rival)
        doubt = log_other(natural, y).exp()
        divergence = doubt * kl_divergence(attacked, natural)
        return Output(
            (boosted + self.beta * divergence).mean(),
            attacked.detach(),
            {
                "boosted_cross_entropy": boosted.detach().mean(),
                "weighted_divergence": divergence.detach().mean(),
                "doubt": doubt.detach().mean(),
                "natural_accuracy": (natural.argmax(dim=1) == y).to(x.dtype).mean(),
            },
        )

    def _search(self, x: Tensor, y: Tensor, index: Tensor, step: int) -> Tensor:
        threat = self.required_threat()
        start = near(x, threat, index=index, seed=self.seed, step=step)
        with probing(self.model):
            return ascend(
                lambda points: cross_entropy(logits_of(self.model, points), y),
                threat,
                x,
                start,
                steps=self.steps,
                step_size=self.step_size,
            )
