"""Points found on one model, shown to another: an attack that needs no gradient of its target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from soar import values
from soar.attacks.attack import Attack, Examples, require_attack
from soar.attacks.batch import perturb
from soar.attacks.pgd import PGD
from soar.attacks.shown import Shown, ShownState
from soar.errors import UserError
from soar.model_state import placement, probing, require_module
from soar.prediction import as_input, predict
from soar.threat import Threat


@dataclass(frozen=True, kw_only=True)
class Transfer(Shown[ShownState]):
    """PGD on a source model, shown to the model under attack: one prediction an image.

    The source is attacked to the end of the budget, also where it is fooled early: a point that just fools
    its source hardly moves another model.

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
        """Name the attack and its source."""
        return f"{self.attack.label} from {self.source_name}"

    def start(self, examples: Examples, threat: Threat) -> ShownState:
        """Attack the source."""
        x = examples.x
        points = transfer_points(
            self.source,
            self.attack,
            threat,
            x,
            examples.labels,
            index=examples.index,
            seed=examples.seed,
            batch_size=max(1, len(x)),
        )
        return ShownState(examples, points.to(x), torch.zeros_like(examples.labels, dtype=torch.bool))


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

    A point that just fools its source hardly moves another model; the whole budget makes it transfer.

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
    labels, index = labels.to(device), index.to(device)
    parts = []
    for first in range(0, len(labels), batch_size):
        rows = slice(first, first + batch_size)
        x = as_input(images[rows], device, dtype)
        parts.append(
            perturb(source, attack, threat, x, labels[rows], index=index[rows], seed=seed, step=0).cpu()
        )
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
