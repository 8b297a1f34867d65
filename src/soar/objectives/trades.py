"""TRADES (Zhang et al., 2019): classify the image, and answer alike all around it."""

from __future__ import annotations

from fractions import Fraction

import torch
from torch import Tensor, nn

from soar.attacks.recall import recalled
from soar.losses import kl_divergence
from soar.model_state import probing
from soar.objectives import checks
from soar.objectives.ascent import Ascent, near
from soar.objectives.inner_passes import depends_on_mode, statistics
from soar.objectives.objective import OBJECTIVES, Objective, Output
from soar.prediction import logits_of
from soar.threat import Threat


@OBJECTIVES.register("trades")
class TRADES(Objective):
    r"""Cross-entropy at the image plus the divergence of the answer nearby from the answer there.

    mean_i [ -log p(y_i | x_i) + beta KL( p(. | x_i) || p(. | x_i') ) ],  x' climbs the same divergence

    The divergence is summed over classes, and its gradient flows through both answers. k + 2 forward and
    backward passes with k steps. The attack compares with one answer, computed once. It sees the model in
    eval mode; where that differs from training, as with BatchNorm, one more forward pass gives that answer.
    The pass that counts for BatchNorm's statistics is that at the image.

    Args:
        model: any module that maps images in [0, 1] to logits
        threat: what the adversary may do, linf or l2
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
        self.beta = beta
        self.ascent = Ascent(steps, step_size)

    def compute(self, x: Tensor, y: Tensor, index: Tensor, step: int) -> Output:
        """Answer at the image, find where the answer differs most, and answer there."""
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
            return self.ascent.climb(
                lambda points: kl_divergence(logits_of(self.model, points), natural), threat, x, start
            )
