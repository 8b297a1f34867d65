"""GradAlign (Andriushchenko and Flammarion, 2020): FGSM training whose input gradients agree nearby."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from soar import randomness
from soar.attacks.recall import recalled
from soar.curvature import input_gradient
from soar.double_backward import FastDoubleBackward
from soar.objectives import checks
from soar.objectives.alignment import cosine, watched
from soar.objectives.inner_passes import (
    LossAt,
    depends_on_mode,
    full_precision,
    regularized,
    statistics,
)
from soar.objectives.objective import OBJECTIVES, Objective, Output
from soar.objectives.one_step import Step, step_from
from soar.prediction import logits_of
from soar.threat import Linf, Threat

_EIGHT = 8 / 255


class Compared(NamedTuple):
    """The step of the attack, and the gradient at the image that others are compared with."""

    step: Step
    gradient: Tensor


@OBJECTIVES.register("grad-align")
class GradAlign(Objective):
    r"""Cross-entropy at FGSM points plus 1 - cos of the input gradients at and near the image.

    mean_i [ -log p(y_i | x_i + eps sign g(x_i)) + w (1 - cos( g(x_i), g(x_i + n_i) )) ],  n ~ U(-eps, eps)

    with x + n kept in the pixel range, in l2 and l1 uniform in the ball with a step along the gradient. Only
    g(x + n) is differentiated by the weights. An example one of whose gradients is zero has no penalty.

    Three forward passes, of which the one at x + n has a gradient that is differentiated again. FGSM uses the
    model in eval mode; where that differs from training, as with BatchNorm, g(x) is computed there once
    more. BatchNorm updates its running statistics in the pass at the attacked points only. The metric
    `alignment` is the mean cosine between the gradients at the image and at the attacked points.

    Args:
        model: any module that maps images in [0, 1] to logits
        threat: what the adversary may do
        weight: w; by default 0.2 at linf 8/255 and 2.0 at linf 16/255, with log w linear in eps, and 0.2 for
            l2 and l1, for which its authors give no number
        seed: seed of the noise
    """

    differentiates_twice: ClassVar[bool] = True

    def __init__(
        self, model: nn.Module, threat: Threat, *, weight: float | None = None, seed: int = 0
    ) -> None:
        super().__init__(model, threat, seed=seed)
        self.required_threat()
        checks.not_negative(weight=weight)
        self.weight = weight

    def compute(self, x: Tensor, y: Tensor, index: Tensor, step: int) -> Output:
        """Compare the gradients at and near the image, and train one step away from it."""
        threat = self.required_threat()
        found = recalled(lambda: self._search(x, y))
        near = threat.random_start(x, randomness.key(self.seed, index, "grad-align noise", step))
        with full_precision(x.device), FastDoubleBackward(), statistics(self.model, "batch"):
            _, gradient = input_gradient(LossAt(self.model, y), near, differentiable=True)
        points, alignment = watched(*found.step)
        logits = logits_of(self.model, points)
        penalty = usual_weight(threat) if self.weight is None else self.weight
        output = regularized(
            self.classification_loss(logits, y), penalty * misalignment(found.gradient, gradient), logits
        )
        output.metrics["alignment"] = alignment
        return output

    def _search(self, x: Tensor, y: Tensor) -> Compared:
        threat = self.required_threat()
        found = step_from(self.model, threat, x, y, threat.radius)
        if not depends_on_mode(self.model):
            return Compared(found, found.gradient)
        with full_precision(x.device), statistics(self.model, "batch"):
            return Compared(found, input_gradient(LossAt(self.model, y), x)[1])


def usual_weight(threat: Threat) -> float:
    """Return the weight for a threat: tenfold for every 8/255 more of linf.

    >>> round(usual_weight(Linf("8/255")), 6), round(usual_weight(Linf("16/255")), 6)
    (0.2, 2.0)
    """
    return 0.2 * 10 ** (threat.radius / _EIGHT - 1) if isinstance(threat, Linf) else 0.2


def misalignment(fixed: Tensor, gradient: Tensor) -> Tensor:
    """Return 1 - cos of two gradients, and 0 for an example one of whose gradients is zero.

    Args:
        fixed: gradients that are not differentiated
        gradient: gradients that are

    >>> misalignment(torch.tensor([[1.0, 0.0], [1.0, 1.0]]), torch.tensor([[0.0, 2.0], [0.0, 0.0]]))
    tensor([1., 0.])
    """
    exists = fixed.flatten(1).any(dim=1) & gradient.flatten(1).any(dim=1)
    return torch.where(exists, 1 - cosine(fixed.detach(), gradient), 0)
