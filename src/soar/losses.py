"""Per-example losses, minimized by training and maximized by attacks.

Every function returns one loss per example, larger where the model is worse, so that an attack can maximize
it directly. Nothing is averaged here: a mean would couple the examples of a batch.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from soar.errors import unknown

Loss = Callable[[Tensor, Tensor], Tensor]

_TINY = 1e-12


def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Return -log p_y, the negative log-probability of the label.

    >>> cross_entropy(torch.zeros(1, 4), torch.tensor([2]))
    tensor([1.3863])
    """
    return F.cross_entropy(logits, labels, reduction="none")


def kl_divergence(logits: Tensor, reference_logits: Tensor) -> Tensor:
    """Return KL(reference || model) = sum_k r_k (log r_k - log p_k), summed over classes.

    Args:
        logits: of the model, p after the softmax
        reference_logits: of the reference, r after the softmax; gradients flow to them, too

    >>> kl_divergence(torch.zeros(1, 2), torch.tensor([[0.0, 1000.0]]))
    tensor([0.6931])
    """
    reference = F.log_softmax(reference_logits, dim=1)
    return (reference.exp() * (reference - F.log_softmax(logits, dim=1))).sum(dim=1)


def log_other(logits: Tensor, classes: Tensor) -> Tensor:
    r"""Return log(1 - p_c), the log-probability of all other classes together.

    log(1 - p_c) = logsumexp_{j != c} log p_j

    Nothing is subtracted from 1, so it stays exact, with its gradient, where p_c rounds to 1.

    Args:
        logits: of the model
        classes: c, one per example

    >>> log_other(torch.tensor([[0.0, 1000.0]]), torch.tensor([1]))
    tensor([-1000.])
    """
    _, others = _split(F.log_softmax(logits, dim=1), classes)
    return others.logsumexp(dim=1)


def soft_margin(logits: Tensor, labels: Tensor) -> Tensor:
    """Return logsumexp_{i != y} z_i - z_y, a smooth upper bound on the margin.

    >>> soft_margin(torch.tensor([[3.0, 1.0, 1.0]]), torch.tensor([0]))
    tensor([-1.3069])
    """
    true, others = _split(logits, labels)
    return others.logsumexp(dim=1) - true


def margin(logits: Tensor, labels: Tensor) -> Tensor:
    """Return max_{i != y} z_i - z_y; positive exactly where the model misclassifies.

    >>> margin(torch.tensor([[3.0, 1.0, 2.0]]), torch.tensor([0]))
    tensor([-1.])
    """
    true, others = _split(logits, labels)
    return others.amax(dim=1) - true


def dlr(logits: Tensor, labels: Tensor) -> Tensor:
    """Return the difference-of-logits ratio, the margin over z_(1) - z_(3) (Croce and Hein, 2020).

    It does not change when logits are shifted or scaled, so a saturated softmax cannot hide its gradient.
    With two classes there is no third logit and the plain margin takes its place.

    >>> dlr(torch.tensor([[5.0, 3.0, 1.0]]), torch.tensor([0]))
    tensor([-0.5000])
    """
    if logits.shape[1] < 3:
        return margin(logits, labels)
    ranked = logits.topk(3, dim=1).values
    return margin(logits, labels) / (ranked[:, 0] - ranked[:, 2] + _TINY)


def targeted_dlr(logits: Tensor, labels: Tensor, targets: Tensor) -> Tensor:
    """Return (z_t - z_y) / (z_(1) - (z_(3) + z_(4)) / 2), the DLR loss toward a target class.

    With fewer than four classes the scale is 1: of three, z_(1) - z_(3) would make the loss toward the least
    likely class -1 wherever the label is the most likely one, and its gradient zero.

    Args:
        logits: of the model
        labels: the true classes
        targets: the target classes

    >>> targeted_dlr(torch.tensor([[5.0, 3.0, 2.0, 0.0]]), torch.tensor([0]), torch.tensor([2]))
    tensor([-0.7500])
    """
    margins = targeted_margin(logits, labels, targets)
    if logits.shape[1] < 4:
        return margins
    ranked = logits.topk(4, dim=1).values
    return margins / (ranked[:, 0] - ranked[:, 2:].mean(dim=1) + _TINY)


def targeted_margin(logits: Tensor, labels: Tensor, targets: Tensor) -> Tensor:
    """Return z_t - z_y.

    >>> targeted_margin(torch.tensor([[3.0, 1.0, 2.0]]), torch.tensor([0]), torch.tensor([1]))
    tensor([-2.])
    """
    return _pick(logits, targets) - _pick(logits, labels)


def targeted_cross_entropy(logits: Tensor, labels: Tensor, targets: Tensor) -> Tensor:  # noqa: ARG001
    """Return log p_t, so that maximizing it leads to the target; the label is not used.

    >>> targeted_cross_entropy(torch.zeros(1, 4), torch.tensor([0]), torch.tensor([2]))
    tensor([-1.3863])
    """
    return -cross_entropy(logits, targets)


LOSSES: dict[str, Loss] = {"ce": cross_entropy, "margin": margin, "dlr": dlr}
TARGETED_LOSSES: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "ce": targeted_cross_entropy,
    "margin": targeted_margin,
    "dlr": targeted_dlr,
}


def check_name(name: str, where: str) -> str:
    """Check that a loss exists, and return its name.

    Args:
        name: one of ce, margin, dlr
        where: the field that set it
    """
    if not isinstance(name, str) or name not in LOSSES:
        raise unknown("loss", name, LOSSES, where)
    return name


def strongest_targets(logits: Tensor, labels: Tensor, rank: Tensor) -> Tensor:
    """Return the `rank`-th most likely wrong class, counted from 0.

    Args:
        logits: of the clean image
        labels: the true classes
        rank: one per example, below the number of classes minus one

    >>> strongest_targets(torch.tensor([[9.0, 1.0, 5.0]]), torch.tensor([0]), torch.tensor([1]))
    tensor([1])
    """
    wrong = logits.scatter(1, labels[:, None], -torch.inf)
    return wrong.argsort(dim=1, descending=True, stable=True).gather(1, rank[:, None])[:, 0]


def _pick(logits: Tensor, classes: Tensor) -> Tensor:
    return logits.gather(1, classes[:, None])[:, 0]


def _split(logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Separate the true logit from the others, which stay in place with the true one at -inf."""
    return _pick(logits, labels), logits.scatter(1, labels[:, None], -torch.inf)
