"""What an attack did to each example, and the one point that is kept of all that it evaluated."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from soar.attacks.attack import Examples


@dataclass(frozen=True)
class Outcomes:
    """What an attack did to each example, in the order the examples were given."""

    correct: Tensor
    """whether the clean image is correctly classified"""
    robust: Tensor
    """whether it is correctly classified and no point was found that fools the model"""
    adversarial: Tensor
    """the point that fools the model; where there is none, the point of highest loss that was seen"""
    forward: Tensor
    """forward passes"""
    backward: Tensor
    """backward passes"""
    predictions: Tensor
    """the class predicted at the point that fools the model; the label where there is none; the prediction of
    the clean image where it is misclassified"""


class Record:
    """Outcomes in the making.

    Args:
        examples: all examples, with the model's logits at the images where they are known
        asked: forward passes that were made already, the same for every example
    """

    def __init__(self, examples: Examples, asked: int) -> None:
        labels, logits = examples.labels, examples.logits
        predictions = labels.clone() if logits is None or not len(labels) else logits.argmax(dim=1)
        correct = predictions == labels
        passes = torch.zeros_like(examples.row)
        self.outcomes = Outcomes(
            correct=correct,
            robust=correct.clone(),
            adversarial=examples.x.clone(),
            forward=passes + asked,
            backward=passes,
            predictions=predictions,
        )
        self.highest_loss = examples.x.new_full((len(labels),), -torch.inf)
        self._winner = torch.full_like(examples.row, torch.iinfo(torch.int64).max)

    def spend(self, rows: Tensor, forward: Tensor, backward: Tensor) -> None:
        """Count passes; a row may occur more than once."""
        self.outcomes.forward.index_add_(0, rows, forward)
        self.outcomes.backward.index_add_(0, rows, backward)

    def keep(self, examples: Examples, points: Tensor, logits: Tensor, loss: Tensor, fooled: Tensor) -> None:
        """Keep the point of the lowest entry that succeeds, and until then the one of highest loss.

        Args:
            examples: of the points, perhaps several entries of one example
            points: where the model was evaluated
            logits: of the model there
            loss: of the attack there; -inf for a point that must not be kept
            fooled: which points succeed
        """
        rows, found = examples.row, self.outcomes
        # A loss may be more precise than the images: the model decides about that.
        precision = torch.promote_types(self.highest_loss.dtype, loss.dtype)
        self.highest_loss, loss = self.highest_loss.to(precision), loss.to(precision)
        highest = self.highest_loss[rows]
        self.highest_loss.scatter_reduce_(0, rows, loss, "amax")
        # Several entries of one example may be in the batch: the highest of them counts.
        is_higher = (loss == self.highest_loss[rows]) & (loss > highest) & found.robust[rows] & ~fooled
        if bool(is_higher.any()):
            found.adversarial[rows[is_higher]] = points[is_higher]
        if not bool(fooled.any()):
            return
        found.robust[rows[fooled]] = False
        before, entry = self._winner[rows], examples.entry
        self._winner.scatter_reduce_(0, rows[fooled], entry[fooled], "amin")
        won = fooled & (entry < before) & (entry == self._winner[rows])
        found.adversarial[rows[won]], found.predictions[rows[won]] = points[won], logits[won].argmax(dim=1)
