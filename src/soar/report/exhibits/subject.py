"""What exhibits are made of: a model, examples and a threat, with the questions that exhibits ask."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from soar import losses
from soar.attacks import PGD, Attack, Outcomes, run
from soar.data import Split
from soar.model_state import placement, probing
from soar.prediction import as_input, predict
from soar.progress import Mode
from soar.threat import Threat

_STEPS = 20  # of the attack that looks for the worst point


@dataclass(kw_only=True)
class Subject:
    """A model before its examples.

    Args:
        model: maps images in [0, 1] to logits
        split: the examples
        threat: what the adversary may do
        seed: seed of all random numbers
        batch_size: how many examples are evaluated at once
        progress: how to show progress
    """

    model: nn.Module
    split: Split
    threat: Threat
    seed: int = 0
    batch_size: int = 128
    progress: Mode = "quiet"

    @cached_property
    def x(self) -> Tensor:
        """The images as the model takes them: float in [0, 1], where the model is."""
        return as_input(self.split.images, *placement(self.model))

    @cached_property
    def labels(self) -> Tensor:
        """The true classes, where the model is."""
        return self.split.labels.to(placement(self.model)[0])

    @cached_property
    def logits(self) -> Tensor:
        """What the model says about the clean images."""
        return self.ask(self.split.images)

    @cached_property
    def correct(self) -> Tensor:
        """Which clean images are correctly classified, on the CPU."""
        return (self.logits.argmax(dim=1) == self.labels).cpu()

    def ask(self, points: Tensor) -> Tensor:
        """Return the logits of any images."""
        with probing(self.model):
            return predict(self.model, points, self.batch_size)

    def attack(
        self, attack: Attack[Any], threat: Threat, rows: Tensor, *, goal: Tensor | None = None
    ) -> Outcomes:
        """Attack some of the examples within any threat.

        Args:
            attack: the recipe
            threat: in place of the subject's
            rows: which examples
            goal: classes to end in
        """
        split = self.split.subset(rows)
        return run(
            self.model,
            attack,
            threat,
            split.images,
            split.labels,
            index=split.indices,
            goal=goal,
            seed=self.seed,
            batch_size=self.batch_size,
            clean_logits=self.logits[rows.to(self.logits.device)],
        )


def strongest(subject: Subject, rows: Tensor, threat: Threat, loss: losses.Loss = losses.margin) -> Tensor:
    """Climb a loss for all steps of PGD and give the highest point on the way, not the first that fools.

    Args:
        subject: the model and its examples
        rows: which of them; those that are classified wrong come back as they are
        threat: the ball, in place of the subject's
        loss: what to climb
    """
    # No example is ever taken for a class that does not exist, so none stops at the first point that fools.
    nowhere = torch.full((len(rows),), subject.logits.shape[1])
    return subject.attack(PGD(steps=_STEPS, loss=loss), threat, rows, goal=nowhere).adversarial
