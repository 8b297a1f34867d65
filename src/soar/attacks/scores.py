"""What attacks climb: a loss, towards a target class where there is one, with or without its gradient."""

from __future__ import annotations

import torch
from torch import Tensor

from soar import losses
from soar.attacks.attack import Examples


def count_entries(restarts: int, targets: int, classes: int) -> int:
    """Count restarts times targets; there are at most as many targets as wrong classes.

    >>> count_entries(restarts=2, targets=9, classes=4), count_entries(restarts=2, targets=0, classes=4)
    (6, 2)
    """
    return restarts * max(1, min(targets, classes - 1))


def target_classes(examples: Examples, targets: int) -> Tensor:
    """Return the class to climb to: the goal, or the one at the entry's place in the ranking; -1 for none.

    Args:
        examples: with the clean logits, where there are targets
        targets: how many of the most likely wrong classes are tried in turn; 0 for none
    """
    if not targets or examples.logits is None or bool((examples.goal >= 0).any()):
        return examples.goal
    rank = examples.entry % min(targets, examples.logits.shape[1] - 1)
    return losses.strongest_targets(examples.logits, examples.labels, rank)


def loss_towards(loss: str, logits: Tensor, labels: Tensor, target: Tensor) -> Tensor:
    """Return the loss, towards the target where there is one.

    Args:
        loss: ce, margin or dlr
        logits: of the model
        labels: true classes
        target: of every example, or -1 for all of them
    """
    # All examples of a run have a target or none has.
    if len(target) and int(target[0]) >= 0:
        return losses.TARGETED_LOSSES[loss](logits, labels, target)
    return losses.LOSSES[loss](logits, labels)


def margin(logits: Tensor, examples: Examples) -> Tensor:
    """Return the margin of being fooled: above zero exactly where the search has reached its end.

    It is max_{i != y} z_i - z_y, and z_t - max_{i != t} z_i for an example with the goal t.
    """
    is_targeted = examples.goal >= 0
    distance = losses.margin(logits, torch.where(is_targeted, examples.goal, examples.labels))
    return torch.where(is_targeted, -distance, distance)


def probability(logits: Tensor, examples: Examples) -> Tensor:
    """Return -p_y, or p_t for an example with the goal t.

    Where the softmax is 1 to the last digit this does not change with the image.
    """
    is_targeted = examples.goal >= 0
    classes = torch.where(is_targeted, examples.goal, examples.labels)
    chance = logits.softmax(dim=1).gather(1, classes[:, None])[:, 0]
    return torch.where(is_targeted, chance, -chance)
