"""Points found elsewhere, shown to the model under attack: one prediction per image and no gradient."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeVar

import torch
from torch import Tensor, nn

from soar import losses, values
from soar.attacks.attack import Answer, Attack, Examples, require_attack
from soar.attacks.oracle import perturb
from soar.attacks.pgd import PGD
from soar.errors import UserError
from soar.model_state import placement, probing, require_module
from soar.prediction import as_input, predict
from soar.threat import Threat


@dataclass(frozen=True)
class ShownState:
    """The points to show, and whether they have been shown."""

    examples: Examples
    points: Tensor
    shown: Tensor


S = TypeVar("S", bound=ShownState)


class Shown(Attack[S]):
    """An attack whose search is over when the engine begins; `start` finds the points."""

    gradients: ClassVar[int] = 0

    @property
    def budget(self) -> int:
        """One prediction of the model under attack."""
        return 1

    def score(self, logits: Tensor, state: S) -> Tensor:
        """Return the margin, for the record."""
        return losses.margin(logits, state.examples.labels)

    def update(self, state: S, answer: Answer, threat: Threat) -> S:  # noqa: ARG002
        """Mark the points as shown."""
        return replace(state, shown=torch.ones_like(state.shown))

    def exhausted(self, state: S) -> Tensor:
        """Return which points have been shown."""
        return state.shown


@dataclass(frozen=True, kw_only=True)
class Transfer(Shown[ShownState]):
    """PGD on a source model, shown to the model under attack: one prediction per image.

    Args:
        source: the model whose gradients are followed, on the device and in the precision it is to run in
        source_name: what to call it
        attack: the recipe, untargeted and with one start

    Raises:
        UserError: for an attack with restarts or targets, of which there would be no last point
    """

    source: nn.Module
    source_name: str = "source"
    attack: Attack[Any] = PGD(steps=20)  # noqa: RUF009 - frozen

    def __post_init__(self) -> None:
        require_module(self.source)
        require_attack(self.attack)
        values.text(self.source_name, "source_name")
        if self.attack.entries(2) > 1 or getattr(self.attack, "targets", False):
            raise UserError(f"transfer: got {self.attack.label}, expected one start and no targets")

    @property
    def label(self) -> str:
        """Return the label: the attack and its source."""
        return f"{self.attack.label} from {self.source_name}"

    def start(self, examples: Examples, threat: Threat) -> ShownState:
        """Attack the source."""
        x, labels, index = examples.x, examples.labels, examples.index
        points = transfer_points(
            self.source, self.attack, threat, x, labels, index=index, seed=examples.seed, batch_size=len(x)
        )
        return ShownState(examples, points.to(x), torch.zeros_like(labels, dtype=torch.bool))


def transfer_points(
    source: nn.Module,
    attack: Attack[Any],
    threat: Threat,
    images: Tensor,
    labels: Tensor,
    *,
    index: Tensor,
    seed: int = 0,
    batch_size: int = 128,
) -> Tensor:
    """Attack a source model to the end of the budget, also where it is fooled early.

    A point that only just fools its source hardly moves another model; the whole budget makes it transfer.

    Args:
        source: the model whose gradients are followed
        attack: the recipe, one restart
        threat: what the adversary may do
        images: uint8, or float in [0, 1]
        labels: true classes
        index: identity of each example
        seed: seed of random starts
        batch_size: how many examples are attacked at once
    """
    device, dtype = placement(source)
    batches = zip(*(part.split(batch_size) for part in (images, labels, index)), strict=True)
    parts = []
    for some, own_labels, own_index in batches:
        x, y, numbers = as_input(some, device, dtype), own_labels.to(device), own_index.to(device)
        parts.append(perturb(source, attack, threat, x, y, index=numbers, seed=seed, step=0).cpu())
    return torch.cat(parts)


def survives(target: nn.Module, points: Tensor, labels: Tensor, *, batch_size: int = 128) -> Tensor:
    """Return which points a model classifies correctly.

    Args:
        target: the model under attack
        points: images in [0, 1]
        labels: true classes
        batch_size: how many are predicted at once
    """
    with probing(target):
        return predict(target, points, batch_size).argmax(dim=1).cpu() == labels.cpu()
