"""IBP (Gowal et al., 2018): cross-entropy of the worst logits that interval bounds allow."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor, nn

from soar.bounds import propagate, require_bounded, worst_logits
from soar.losses import cross_entropy
from soar.objectives import checks
from soar.objectives.inner_passes import full_precision
from soar.objectives.objective import OBJECTIVES, Objective, Output
from soar.threat import Threat


@OBJECTIVES.register("ibp")
class IBP(Objective):
    r"""Cross-entropy at the image and of the worst logits that intervals allow: certified training (IBP).

    mean_i [ k -log p(y_i | x_i) + (1 - k) -log q(y_i | x_i) ],  q of the logits 0 for y and -m_j for others

    with m_j a lower bound of z_y(x') - z_j(x') over all x' that the threat allows: an interval of every
    entry is sent through the network, and the last linear layer bounds differences of logits. No attack
    raises the loss above -log q, so accuracy under it is certified. Source: Gowal et al., "On the
    Effectiveness of Interval Bound Propagation for Training Verifiably Robust Models", 2018.

    k falls from 1 to `kappa` while the radius grows to that of the threat given here, in proportion to it:

    k = 1 - (1 - kappa) eps / eps_full

    In a recipe both follow `training.eps_warmup_epochs`; without a warm-up over several epochs training
    often ends at a constant prediction. One forward and one backward pass, each of the image and of both
    ends of its interval, with the operations of three. Bounds are computed in float32. BatchNorm normalizes
    intervals by the statistics of the images. Networks of few layers without per-image or group
    normalization have tight intervals; a function that cannot be bounded is refused by its name.

    The metric `certified` is the share of the batch that intervals certify at the current radius.

    Args:
        model: any module that maps images in [0, 1] to logits, of functions that `soar.bounds` knows
        threat: what the adversary may do, linf or l2
        kappa: k at the full radius; less is more certified and less accurate
        seed: not used, nothing is drawn

    >>> import torch
    >>> from soar.threat import Linf
    >>> layer = nn.Linear(2, 2, bias=False)
    >>> _ = layer.weight.data.copy_(torch.eye(2))
    >>> objective = IBP(nn.Sequential(nn.Flatten(), layer), Linf("0.1"))
    >>> output = objective(torch.tensor([[[[0.5, 0.2]]]]), torch.tensor([0]))
    >>> round(output.loss.item(), 4)  # the mean of log(1 + exp(-0.3)) and log(1 + exp(-0.1))
    0.5994
    """

    allows_bfloat16: ClassVar[bool] = False

    def __init__(self, model: nn.Module, threat: Threat, *, kappa: float = 0.5, seed: int = 0) -> None:
        super().__init__(model, threat, seed=seed)
        checks.fraction(kappa=kappa)
        self.kappa = kappa
        require_bounded(self.required_threat())
        self.full_radius = self.required_threat().radius

    def compute(self, x: Tensor, y: Tensor, index: Tensor, step: int) -> Output:  # noqa: ARG002
        """Send the images and their intervals through the network, and mix both losses."""
        threat = self.required_threat()
        k = 1 - (1 - self.kappa) * min(1.0, threat.radius / self.full_radius)
        with full_precision(x.device):
            bounds = propagate(self.model, x, threat)
            worst = worst_logits(bounds, y)
            natural = self.classification_loss(bounds.logits, y).mean()
            bound = cross_entropy(worst, y).mean()
        metrics = {
            "cross_entropy": natural.detach(),
            "worst_cross_entropy": bound.detach(),
            "certified": (worst.detach().argmax(dim=1) == y).to(x.dtype).mean(),
        }
        return Output(k * natural + (1 - k) * bound, bounds.logits.detach(), metrics)
