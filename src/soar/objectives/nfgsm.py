"""N-FGSM (de Jorge et al., 2022): one-step adversarial training from strong noise, without projection."""

from __future__ import annotations

from torch import Tensor, nn

from soar.attacks.recall import recalled
from soar.objectives import checks
from soar.objectives.alignment import watched
from soar.objectives.objective import OBJECTIVES, Objective, Output
from soar.objectives.one_step import noisy_step
from soar.prediction import logits_of
from soar.threat import Threat


@OBJECTIVES.register("nfgsm")
class NFGSM(Objective):
    r"""Cross-entropy one step away from a strongly noisy image, not projected to the ball (N-FGSM).

    mean_i -log p(y_i | x_i'),  x' = clip(x + n + a eps sign g(x + n)),  n ~ U(-k eps, k eps) per pixel

    with x + n kept in the pixel range. For l2 the noise is uniform in the ball of radius k eps and the step
    follows the gradient. Strong noise, and points up to (k + a) eps away, keep one step from collapsing as
    it does in `RSFGSM`; the metric `alignment`, the mean cosine between the gradients at x + n and at x',
    falls when it does.

    Two forward and two backward passes. The step uses the model in eval mode and computes no parameter
    gradients; BatchNorm updates its running statistics in the last pass only, at the attacked points.

    Args:
        model: any module that maps images in [0, 1] to logits
        threat: what the adversary may do
        noise: k, the radius of the noise as a multiple of eps
        step_eps_fraction: a, the length of the step as a fraction of eps
        seed: seed of the noise
    """

    def __init__(
        self,
        model: nn.Module,
        threat: Threat,
        *,
        noise: float = 2.0,
        step_eps_fraction: float = 1.0,
        seed: int = 0,
    ) -> None:
        super().__init__(model, threat, seed=seed)
        self.required_threat()
        checks.positive(noise=noise, step_eps_fraction=step_eps_fraction)
        self.noise, self.step_eps_fraction = noise, step_eps_fraction

    def compute(self, x: Tensor, y: Tensor, index: Tensor, step: int) -> Output:
        """Take one step from the noisy images, then return the mean cross-entropy there."""
        found = recalled(
            lambda: noisy_step(
                self.model,
                self.required_threat(),
                x,
                y,
                noise=self.noise,
                step_eps_fraction=self.step_eps_fraction,
                index=index,
                seed=self.seed,
                step=step,
            )
        )
        points, alignment = watched(*found)
        logits = logits_of(self.model, points)
        loss = self.classification_loss(logits, y).mean()
        return Output(loss, logits.detach(), {"alignment": alignment})
