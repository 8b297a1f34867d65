"""Points found on one model, shown to another: an attack that needs no gradient of its target."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from soar.attacks.attack import Attack
from soar.attacks.batch import perturb
from soar.attacks.oracle import as_input, predict
from soar.model_state import placement, probing
from soar.threat import Threat


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
    """Tell which points a model classifies right.

    Args:
        target: the model under attack
        points: images in [0, 1]
        labels: true classes
        batch_size: how many are predicted at once
    """
    with probing(target):
        return predict(target, points, batch_size).argmax(dim=1).cpu() == labels.cpu()
