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
    the clean image where that is wrong already"""


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
        self._highest_loss = examples.x.new_full((len(labels),), -torch.inf)
        self._winner: dict[int, int] = {}

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
        precision = torch.promote_types(self._highest_loss.dtype, loss.dtype)
        self._highest_loss, loss = self._highest_loss.to(precision), loss.to(precision)
        before = self._highest_loss[rows]
        self._highest_loss.scatter_reduce_(0, rows, loss, "amax")
        # Several entries of one example may be in the batch: the highest of them counts.
        is_higher = (loss == self._highest_loss[rows]) & (loss > before) & found.robust[rows] & ~fooled
        if bool(is_higher.any()):
            found.adversarial[rows[is_higher]] = points[is_higher]
        if not bool(fooled.any()):
            return
        found.robust[rows[fooled]] = False
        best = self._new_winners(examples, fooled)
        won, places = list(best), list(best.values())
        found.adversarial[won], found.predictions[won] = points[places], logits[places].argmax(dim=1)

    def _new_winners(self, examples: Examples, fooled: Tensor) -> dict[int, int]:
        """Return the rows whose lowest successful entry is in this batch, and where."""
        positions = fooled.nonzero()[:, 0].tolist()
        rows, entries = examples.row[fooled].tolist(), examples.entry[fooled].tolist()
        best: dict[int, int] = {}
        for position, row, entry in zip(positions, rows, entries, strict=True):
            if entry < self._winner.get(row, entry + 1):
                self._winner[row] = entry
                best[row] = position
        return best
