"""ELLE (Abad Rocamora et al., 2024): FGSM training plus an error of linearity from three losses."""

from __future__ import annotations

import math
from statistics import fmean
from typing import ClassVar

import torch
from torch import Tensor, nn

from soar import randomness
from soar.attacks.recall import recalled
from soar.distributed import current
from soar.objectives import checks
from soar.objectives.alignment import watched
from soar.objectives.inner_passes import LossAt, full_precision, regularized, statistics
from soar.objectives.objective import OBJECTIVES, Objective, Output
from soar.objectives.one_step import step_from
from soar.prediction import logits_of
from soar.shapes import per_example
from soar.threat import Linf, Threat
from soar.values import truth

_ADAPTIVE_WEIGHT = 4000.0
_DECAY = 0.99


class AdaptiveWeight:
    """A weight that is 0 until an error is unusually large, and then decays.

    After each update its error e is compared with those before: above their mean + 2 standard deviations
    the weight of the next update is `highest`, otherwise 0.99 of what it was. Micro-batches of one update
    share a weight, and their errors are averaged, as are those of processes that train together.

    Args:
        highest: the weight after an unusual error

    >>> weight = AdaptiveWeight(8.0)
    >>> [weight.after(torch.tensor(error), step, 1) for step, error in enumerate((1.0, 2.0, 9.0, 1.0, 1.0))]
    [0.0, 0.0, 0.0, 8.0, 7.92]
    """

    def __init__(self, highest: float) -> None:
        self.highest = highest
        self.state = torch.zeros(4, dtype=torch.float64, device="cpu")
        """the weight; the number of errors, their mean, and the sum of squared distances from it"""
        self._step: int | None = None
        self._errors: list[float] = []

    def after(self, error: Tensor, step: int, micro_batches: int) -> float:
        """Return the weight of this micro-batch, and count its error.

        Args:
            error: the mean over the micro-batch
            step: the update; a new one forgets what an unfinished one left over
            micro_batches: how many calls make up one update
        """
        weight = float(self.state[0])
        if self._step != step:
            self._step, self._errors = step, []
        self._errors.append(fmean(current().gather(float(error.detach()))))
        if len(self._errors) >= micro_batches:
            self._count(math.fsum(self._errors) / len(self._errors))
            self._errors = []
        return weight

    def _count(self, error: float) -> None:
        weight, count, mean, squares = self.state.tolist()
        # Two errors are the fewest that have a spread.
        is_unusual = count >= 2 and error > mean + 2 * math.sqrt(squares / count)
        further = mean + (error - mean) / (count + 1)
        self.state = torch.tensor(
            [
                self.highest if is_unusual else _DECAY * weight,
                count + 1,
                further,
                squares + (error - mean) * (error - further),
            ],
            dtype=torch.float64,
            device="cpu",
        )


@OBJECTIVES.register("elle")
class ELLE(Objective):
    r"""Cross-entropy at FGSM points plus how far three losses near the image are from a line.

    mean_i [ -log p(y_i | x_i + eps sign g(x_i)) + w (l(c_i) - (1 - t_i) l(a_i) - t_i l(b_i))^2 ]
    a, b = x + U(-eps, eps),  t ~ U(0, 1),  c = (1 - t) a + t b

    with a and b kept in the pixel range, and in l2 and l1 uniform in the ball with a step along the gradient.
    It measures curvature without differentiating twice. FGSM starts at the image itself.

    ELLE-A (`adaptive`) begins with w = 0. When the error of an update exceeds the mean of all before by two
    standard deviations, w becomes `weight`, and otherwise 0.99 of what it was; see `AdaptiveWeight`. That
    state is saved in checkpoints and the same in all processes.

    Five forward and five backward passes. FGSM uses the model in eval mode, and BatchNorm updates its running
    statistics in the pass at the attacked points only. The metric `alignment` is the mean cosine between the
    gradients at the image and at the attacked points.

    Args:
        model: any module that maps images in [0, 1] to logits
        threat: what the adversary may do
        weight: w; by default 4000 if adaptive, otherwise 1000 to linf 8/255, in l2 and l1, 5000 to
            linf 20/255 and 10000 above
        adaptive: whether w is 0 except after errors that are unusually large
        seed: seed of a, b and t
    """

    allows_bfloat16: ClassVar[bool] = False

    def __init__(
        self,
        model: nn.Module,
        threat: Threat,
        *,
        weight: float | None = None,
        adaptive: bool = False,
        seed: int = 0,
    ) -> None:
        super().__init__(model, threat, seed=seed)
        self.required_threat()
        checks.not_negative(weight=weight)
        truth(adaptive, "objective.adaptive")
        self.weight = weight
        self.adaptive_weight = (
            AdaptiveWeight(_ADAPTIVE_WEIGHT if weight is None else weight) if adaptive else None
        )

    def compute(self, x: Tensor, y: Tensor, index: Tensor, step: int) -> Output:
        """Train one FGSM step away from the image, and compare the losses of three points near it."""
        threat = self.required_threat()
        found = recalled(lambda: step_from(self.model, threat, x, y, threat.radius))
        points, alignment = watched(*found)
        logits = logits_of(self.model, points)
        with full_precision(x.device):
            error = self._error(x, y, index, step)
        weight = self._weight(error, step)
        output = regularized(
            self.classification_loss(logits, y), weight * error, logits, linearity_error=error
        )
        output.metrics["alignment"] = alignment
        if self.adaptive_weight:
            output.metrics["penalty_weight"] = error.new_tensor(weight)
        return output

    def get_extra_state(self) -> Tensor:
        """Return the adaptive weight and the moments of its errors, for checkpoints."""
        return torch.zeros(0, device="cpu") if self.adaptive_weight is None else self.adaptive_weight.state

    def set_extra_state(self, state: Tensor) -> None:
        """Restore the adaptive weight from a checkpoint."""
        if self.adaptive_weight is not None and len(state):
            self.adaptive_weight.state = state.cpu()

    def _weight(self, error: Tensor, step: int) -> float:
        adaptive = self.adaptive_weight
        if adaptive is not None:
            # The second pass over a batch, at perturbed weights, counts no error.
            return recalled(lambda: adaptive.after(error.mean(), step, self.micro_batches))
        return usual_weight(self.required_threat()) if self.weight is None else self.weight

    def _error(self, x: Tensor, y: Tensor, index: Tensor, step: int) -> Tensor:
        """Return the squared difference of the loss at c from the line between a and b."""
        threat = self.required_threat()
        a, b = (
            threat.random_start(x, randomness.key(self.seed, index, f"elle {end}", step))
            for end in ("a", "b")
        )
        t = randomness.uniform(randomness.key(self.seed, index, "elle t", step), dtype=x.dtype)
        between = torch.lerp(a, b, per_example(t, x))
        loss_at = LossAt(self.model, y)
        with statistics(self.model, "batch"):
            at_a, at_b, at_c = loss_at(a), loss_at(b), loss_at(between)
        return (at_c - (1 - t) * at_a - t * at_b).square()


def usual_weight(threat: Threat) -> float:
    """Return the weight that the authors use for a radius of linf; for l2 they give none.

    >>> [usual_weight(Linf(eps)) for eps in ("8/255", "9/255", "20/255", "21/255")]
    [1000.0, 5000.0, 5000.0, 10000.0]
    """
    gray_levels = 255 * threat.eps if isinstance(threat, Linf) else 0
    return 1000.0 if gray_levels <= 8 else 5000.0 if gray_levels <= 20 else 10000.0
