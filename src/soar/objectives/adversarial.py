"""Training at clean or noisy images, and adversarial training (Madry et al., 2018) at attacked ones."""

from __future__ import annotations

from fractions import Fraction

from torch import Tensor, nn

from soar import randomness
from soar.attacks.oracle import search
from soar.attacks.pgd import PGD
from soar.attacks.recall import recalled
from soar.objectives import checks
from soar.objectives.alignment import watched
from soar.objectives.objective import OBJECTIVES, Objective, Output
from soar.prediction import logits_of
from soar.threat import Threat


@OBJECTIVES.register("standard")
class Standard(Objective):
    r"""Cross-entropy at the clean images; no defense, the point of comparison. With noise, for smoothing.

    mean_i -log p(y_i | x_i + n_i),  n_i ~ N(0, sigma^2) per pixel

    One forward and one backward pass. The loss does not depend on the threat, which is what the trainer
    validates against. A positive `sigma` trains the model to classify noisy images, not clipped to [0, 1],
    which is what randomized smoothing with the same `sigma` asks it for. Source: Cohen, Rosenfeld, Kolter,
    "Certified Adversarial Robustness via Randomized Smoothing", 2019.

    Args:
        model: any module that maps images in [0, 1] to logits
        threat: what the trainer validates against; not used otherwise
        sigma: standard deviation of the noise, in units of pixels in [0, 1]; 0 for none
        seed: seed of the noise

    >>> import torch
    >>> Standard(torch.nn.Flatten())(torch.zeros(2, 1, 2, 2), torch.tensor([0, 1])).loss
    tensor(1.3863)
    """

    def __init__(
        self, model: nn.Module, threat: Threat | None = None, *, sigma: float = 0.0, seed: int = 0
    ) -> None:
        super().__init__(model, threat, seed=seed)
        checks.not_negative(sigma=sigma)
        self.sigma = sigma

    def compute(self, x: Tensor, y: Tensor, index: Tensor, step: int) -> Output:
        """Return the mean cross-entropy."""
        if self.sigma:
            keys = randomness.key(self.seed, index, "standard noise", step)
            x = x + self.sigma * randomness.normal(keys, tuple(x.shape[1:]), x.dtype)
        logits = logits_of(self.model, x)
        return Output(self.classification_loss(logits, y).mean(), logits.detach(), {})


@OBJECTIVES.register("adversarial")
class Adversarial(Objective):
    """Cross-entropy at the points where PGD with a few steps ends (PGD adversarial training).

    mean_i -log p(y_i | x_i'),  x_i' = PGD_k(x_i)

    k + 1 forward and backward passes. The attack uses the model in eval mode and computes no parameter
    gradients; BatchNorm updates its running statistics in the last pass only, at the attacked points.

    With one step on the cross-entropy there is a metric `alignment`, the mean cosine between the gradients at
    the start and at x'; it falls when training collapses.

    Args:
        model: any module that maps images in [0, 1] to logits
        threat: what the adversary may do
        steps: how many steps the attack takes
        step_size: the length of a step, such as "2/255"; by default as in PGD
        random_start: whether the attack begins at a random point
        loss: what the attack maximizes: ce, margin or dlr
        seed: seed of the random starts
    """

    def __init__(
        self,
        model: nn.Module,
        threat: Threat,
        *,
        steps: int = 10,
        step_size: str | float | Fraction | None = None,
        random_start: bool = True,
        loss: str = "ce",
        seed: int = 0,
    ) -> None:
        super().__init__(model, threat, seed=seed)
        self.required_threat()
        checks.count(steps=steps)
        self.attack = PGD(steps=steps, step_size=step_size, random_start=random_start, loss=loss)

    def compute(self, x: Tensor, y: Tensor, index: Tensor, step: int) -> Output:
        """Attack the batch, then return the mean cross-entropy at the points that were found."""
        threat = self.required_threat()
        points, gradient = recalled(
            lambda: search(self.model, self.attack, threat, x, y, index=index, seed=self.seed, step=step)
        )
        metrics: dict[str, Tensor] = {}
        if self.attack.steps == 1 and self.attack.loss == "ce":
            points, metrics["alignment"] = watched(points, gradient)
        logits = logits_of(self.model, points)
        return Output(self.classification_loss(logits, y).mean(), logits.detach(), metrics)


@OBJECTIVES.register("rs-fgsm")
def RSFGSM(model: nn.Module, threat: Threat, *, seed: int = 0) -> Adversarial:  # noqa: N802 - used like a class
    """Adversarial training with one step of 1.25 eps from a random point of the ball (Wong et al., 2020).

    The cheapest adversarial training, known to collapse at larger eps: `NFGSM` costs the same and does not.

    Args:
        model: any module that maps images in [0, 1] to logits
        threat: what the adversary may do
        seed: seed of the random starts
    """
    # That step is PGD's own for one step, and follows an eps that grows.
    return Adversarial(model, threat, steps=1, seed=seed)
