"""Clean and robust accuracy on held-out examples, and the checkpoint that they select."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import nn

from soar import attacks
from soar.attacks.engine import Listener
from soar.data import Split
from soar.distributed import World
from soar.model_state import probing
from soar.recipes.settings import ValidationSettings
from soar.threat import Threat

_AT_ONCE = 32 << 20
"""numbers of the images that are in memory at once, as an attack holds them"""


@dataclass(frozen=True)
class Scores:
    """Accuracies on the held-out examples.

    Args:
        step: updates made
        clean: clean accuracy
        robust: robust accuracy; None without a threat
    """

    step: int
    clean: float
    robust: float | None

    def beats(self, other: Scores | None, select: str) -> bool:
        """Return whether these are better by the selected accuracy; on a tie the earlier ones stay.

        >>> Scores(2, 0.9, 0.3).beats(Scores(1, 0.8, 0.3), "robust")
        False
        """
        return other is None or self._by(select) > other._by(select)

    def _by(self, select: str) -> float:
        return self.robust if select == "robust" and self.robust is not None else self.clean


def attack_of(settings: ValidationSettings) -> attacks.PGD:
    """Return the attack that validation runs."""
    return attacks.PGD(steps=settings.steps, restarts=settings.restarts, loss=settings.loss)


def selection_rule(split: Split, threat: Threat | None, settings: ValidationSettings) -> str:
    """Return in words which checkpoint counts as the best.

    The attack always has the full threat, whatever the warm-up of training, so accuracies of all epochs are
    comparable and every validated checkpoint may be the best one.
    """
    if not len(split):
        return "no held-out examples, so the last checkpoint counts as the best"
    if settings.select == "clean":
        measure = "clean accuracy"
    elif threat is None:
        measure = "clean accuracy (there is no threat to measure robust accuracy under)"
    else:
        measure = f"robust accuracy under {attack_of(settings).label} within {threat}"
    return f"best checkpoint: highest {measure} on {len(split)} held-out examples, the earlier on a tie"


def validate(
    model: nn.Module,
    split: Split,
    threat: Threat | None,
    settings: ValidationSettings,
    *,
    step: int,
    seed: int = 0,
    world: World | None = None,
    listener: Listener | None = None,
) -> Scores:
    """Measure clean and robust accuracy, each process on its part of the examples.

    Args:
        model: the model to validate
        split: the held-out examples
        threat: what the adversary may do; None measures clean accuracy only
        settings: the attack
        step: updates made so far
        seed: seed of the attack
        world: the processes that share the work
        listener: called while the attack runs
    """
    world = world or World()
    mine = split.subset(torch.arange(len(split), device="cpu")[world.shard(len(split))])
    counts = torch.zeros(2, dtype=torch.int64, device="cpu")
    size = max(settings.batch_size, _AT_ONCE // math.prod(split.stored.shape[1:]))
    for rows in torch.arange(len(mine), device="cpu").split(size):
        part = Split(mine.stored[rows], mine.labels[rows], mine.indices[rows])
        counts += torch.tensor(_count(model, part, threat, settings, seed, listener), device="cpu")
    clean, robust = torch.tensor(world.gather(counts.tolist()), device="cpu").sum(dim=0).tolist()
    return Scores(step, clean / len(split), None if threat is None else robust / len(split))


def _count(
    model: nn.Module,
    part: Split,
    threat: Threat | None,
    settings: ValidationSettings,
    seed: int,
    listener: Listener | None,
) -> tuple[int, int]:
    """Count the examples that are correctly classified, and those that still are after the attack."""
    if threat is None:
        with probing(model):
            predictions = attacks.predict(model, part.images, settings.batch_size).argmax(dim=1)
        correct = int((predictions.cpu() == part.labels.cpu()).sum())
        return correct, correct
    outcomes = attacks.run(
        model,
        attack_of(settings),
        threat,
        part.images,
        part.labels,
        index=part.indices,
        seed=seed,
        batch_size=settings.batch_size,
        progress=listener,
    )
    return int(outcomes.correct.sum()), int(outcomes.robust.sum())
