"""Adversarial examples for a batch: attack some images and return what the model was fooled with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from soar.errors import UserError, unknown
from soar.evaluation.curve import Curve
from soar.evaluation.interval import share_of, wilson
from soar.evaluation.rendering import Rendered
from soar.evaluation.suites import Plan, Wanted, resolve
from soar.evaluation.table import CLEAN, WORST, attack_table
from soar.evaluation.target import COMPILED_AGAIN, Target
from soar.model_state import uncompiled
from soar.threat import Threat, require_threat

if TYPE_CHECKING:
    from rich.table import Table

Batch = Tensor | NDArray[Any]


@dataclass(frozen=True, eq=False)
class AdversarialExamples(Rendered):
    """What `soar.attack` returns: one adversarial image for each image, in the order they were given.

    All tensors are on the device of the images that were passed, and on the CPU for NumPy arrays.
    """

    threat: Threat
    attacks: tuple[str, ...]
    """the labels of the attacks, in the order in which they were run"""
    adversarial: Tensor
    """images in [0, 1], in the floating-point precision of the model, so that it sees exactly the points that
    were evaluated: the clean image where the model misclassifies it already; otherwise a point that the
    model misclassifies; where none was found, the point of highest loss that the last attack saw"""
    success: Tensor
    """whether the model misclassifies the adversarial image, no matter whether it classified the clean one
    correctly"""
    predictions: Tensor
    """the class that the model predicts for each adversarial image"""
    correct: Tensor
    """whether the model classifies the clean image correctly"""
    forward: Tensor
    """forward passes spent on each image, the prediction for the clean one included"""
    backward: Tensor
    """backward passes spent on each image"""

    def __len__(self) -> int:
        return len(self.success)

    def __repr__(self) -> str:
        return f"<AdversarialExamples: {self.threat}, {int(self.success.sum())} of {len(self)} misclassified>"

    def __rich__(self) -> Table:
        return attack_table(self)

    @property
    def names(self) -> list[str]:
        """Everything that `accuracy` knows: clean and worst case, as an `Assessment` calls them."""
        return [CLEAN, WORST]

    @property
    def robust_accuracy(self) -> float:
        """The share of images that are still classified correctly under the attack."""
        return self.accuracy(WORST)

    def accuracy(self, name: str) -> float:
        """Return the share of images that are classified correctly, "clean" or in the "worst case"."""
        return share_of(self._left(name))

    def interval(self, name: str) -> tuple[float, float]:
        """Return the 95% interval of an accuracy."""
        return wilson(int(self._left(name).sum()), len(self))

    def passes(self, name: str) -> tuple[float, float]:
        """Return the mean number of forward and backward passes per image, the clean one included."""
        if name == CLEAN:
            return 1.0, 0.0
        count = max(1, len(self))
        return int(self.forward.sum()) / count, int(self.backward.sum()) / count

    def _left(self, name: str) -> Tensor:
        """Return which images are classified correctly."""
        if name not in self.names:
            raise unknown("name", name, self.names, "attacked images")
        return self.correct if name == CLEAN else ~self.success


@overload
def attack(
    model: nn.Module,
    x: Batch,
    y: Batch,
    threat: Threat,
    attacks: Wanted = ...,
    *,
    seed: int = ...,
    batch_size: int = ...,
) -> AdversarialExamples: ...


@overload
def attack(
    model: nn.Module,
    x: Batch,
    y: Batch,
    threat: Sequence[Threat],
    attacks: Wanted = ...,
    *,
    seed: int = ...,
    batch_size: int = ...,
) -> Curve[AdversarialExamples]: ...


def attack(
    model: nn.Module,
    x: Batch,
    y: Batch,
    threat: Threat | Sequence[Threat],
    attacks: Wanted = "pgd:steps=20",
    *,
    seed: int = 0,
    batch_size: int = 128,
) -> AdversarialExamples | Curve[AdversarialExamples]:
    """Attack a batch of images and return the adversarial ones.

    The result for an image depends on the model, the threat, the attack, the seed and the image's position,
    and not on the batch size. The model is used in eval mode and left as it was.

    Args:
        model: any module that maps images in [0, 1] to logits
        x: images, uint8 or float in [0, 1], as a tensor or a NumPy array
        y: their true classes, int64
        threat: what the adversary may do; or several threats, such as one for each radius
        attacks: an attack as text such as "pgd:steps=20,restarts=5", an attack object, a suite such as
            "standard" (AutoAttack), or a list of these; each attack after the first gets the images that are
            still classified correctly; of a suite that decides by checks, such as "auto", only those that
            are always run
        seed: seed of all random numbers
        batch_size: how many images are evaluated at once

    Returns:
        The adversarial images with what the model predicts for them; for several threats a tuple with one
        result each, in their order, equal to the results of separate calls.

    Raises:
        UserError: if images, labels, threat, attack or the model's outputs cannot be used

    >>> from soar.threat import Linf
    >>> x, y = torch.tensor([[[[0.9, 0.1]]], [[[0.4, 0.5]]], [[[0.3, 0.4]]]]), torch.tensor([0, 1, 0])
    >>> found = attack(nn.Flatten(), x, y, Linf("0.1"), "fgsm")
    >>> found
    <AdversarialExamples: linf 0.1, 2 of 3 misclassified>
    >>> found.adversarial[1].round(decimals=3), found.predictions[1]
    (tensor([[[0.5000, 0.4000]]]), tensor(0))
    >>> found.correct, found.success
    (tensor([ True,  True, False]), tensor([False,  True,  True]))
    >>> [round(one.robust_accuracy, 2) for one in attack(nn.Flatten(), x, y, [Linf("0.01"), Linf("0.5")])]
    [0.67, 0.0]
    """
    threats = as_threats(threat)
    plan = [one for one in resolve(attacks, threats[0].norm_name) if one.condition == "always"]
    for name, given in (("x", x), ("y", y)):
        if not isinstance(given, Tensor | np.ndarray):
            raise UserError(f"{name}: got a {type(given).__name__}, expected a tensor or a NumPy array")
    target = Target(model=model, data=(x, y), threat=threats[0], seed=seed, batch_size=batch_size)
    with uncompiled(model, COMPILED_AGAIN):
        found = Curve(_attacked(target, one, plan) for one in threats)
    return found[0] if isinstance(threat, Threat) else found


def _attacked(target: Target, threat: Threat, plan: Plan) -> AdversarialExamples:
    """Run one attack after the other, each on the images that are still classified correctly."""
    predictions = target.logits.argmax(dim=1)
    correct = predictions == target.y
    robust, adversarial = correct.clone(), target.x[:].clone()
    forward, backward = torch.ones_like(predictions), torch.zeros_like(predictions)
    for planned in plan:
        left = robust.nonzero()[:, 0]
        outcomes = target.attack(planned.attack, rows=left, threat=threat, samples=planned.samples)
        adversarial[left], predictions[left] = outcomes.adversarial, outcomes.predictions
        forward[left] += planned.samples * outcomes.forward
        backward[left] += planned.samples * outcomes.backward
        robust[left] = outcomes.robust
    tensors = (adversarial, ~robust, predictions, correct, forward, backward)
    labels = tuple(planned.attack.label for planned in plan)
    device = target.stored[:0].device
    return AdversarialExamples(threat, labels, *(one.to(device) for one in tensors))


def as_threats(given: Threat | Sequence[Threat]) -> Sequence[Threat]:
    """Return the threats in a list, or refuse what is none."""
    threats = list(given) if isinstance(given, Sequence) and not isinstance(given, str) else [given]
    if not threats:
        raise UserError('threat: got an empty list, expected such as [Linf("4/255"), Linf("8/255")]')
    for one in threats:
        require_threat(one)
    return threats
