"""MART (Wang et al., 2020): like TRADES, with more weight on what the model already gets wrong."""

from __future__ import annotations

from fractions import Fraction

from torch import Tensor, nn

from soar.attacks.recall import recalled
from soar.losses import cross_entropy, kl_divergence, log_other, strongest_targets
from soar.model_state import probing
from soar.objectives import checks
from soar.objectives.ascent import Ascent, near
from soar.objectives.inner_passes import statistics
from soar.objectives.objective import OBJECTIVES, Objective, Output
from soar.prediction import logits_of
from soar.threat import Threat


@OBJECTIVES.register("mart")
class MART(Objective):
    r"""Boosted cross-entropy at attacked points plus a divergence weighted by the doubt at the image.

    mean_i [ -log q_y - log(1 - q_k) + beta (1 - p_y) KL(p || q) ],  p at x_i, q at x_i' = PGD(x_i)

    with k the likeliest wrong class at x'. Gradients flow through everything. k + 2 forward and backward
    passes with k steps of the attack on cross-entropy, which sees the model in eval mode. The pass that
    counts for BatchNorm's statistics is that at the image.

    Logarithms of 1 - q_k and 1 - p_y are taken as the logsumexp of the other classes' log-probabilities.
    They are exact for any logits that float32 holds, so no constant is added that would cut off the slope of
    confident mistakes or hide a NaN.

    Args:
        model: any module that maps images in [0, 1] to logits
        threat: what the adversary may do, linf or l2
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
        self.beta = beta
        self.ascent = Ascent(steps, step_size)

    def compute(self, x: Tensor, y: Tensor, index: Tensor, step: int) -> Output:
        """Attack the batch, then compare the answers at the points and at the images."""
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
            return self.ascent.climb(
                lambda points: cross_entropy(logits_of(self.model, points), y), threat, x, start
            )
