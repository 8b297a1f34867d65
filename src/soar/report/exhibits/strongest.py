"""The worst point that an attack comes across within a radius, not the first that fools the model."""

from __future__ import annotations

import torch
from torch import Tensor

from soar import losses
from soar.attacks import PGD
from soar.report.exhibits.subject import Subject
from soar.threat import Threat

STEPS = 20


def strongest(subject: Subject, rows: Tensor, threat: Threat, loss: losses.Loss = losses.margin) -> Tensor:
    """Climb a loss for all steps of PGD and give the highest point on the way, one an example.

    Args:
        subject: the model and its examples
        rows: which of them; those that are classified wrong come back as they are
        threat: the ball, in place of the subject's
        loss: what to climb
    """
    # No example is ever taken for a class that does not exist, so none stops at the first point that fools.
    nowhere = torch.full((len(rows),), subject.logits.shape[1])
    return subject.attack(PGD(steps=STEPS, loss=loss), threat, rows, goal=nowhere).adversarial
