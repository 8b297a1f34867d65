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
        parts = {
            "correct": correct,
            "robust": correct,
            "adversarial": examples.x,
            "forward": passes + asked,
            "backward": passes,
            "predictions": predictions,
        }
        # One row more than there are examples, for what is not meant to be written.
        whole = {name: torch.cat([part, part.new_zeros(1, *part.shape[1:])]) for name, part in parts.items()}
        self._whole = Outcomes(**whole)
        self.outcomes = Outcomes(**{name: part[:-1] for name, part in whole.items()})
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
        self._write("adversarial", rows, is_higher, points)
        if rows.device.type == "cpu" and not bool(fooled.any()):
            return
        self._write("robust", rows, fooled, ~fooled)
        before, entry = self._winner[rows], examples.entry
        late = torch.iinfo(torch.int64).max
        self._winner.scatter_reduce_(0, rows, torch.where(fooled, entry, late), "amin")
        won = fooled & (entry < before) & (entry == self._winner[rows])
        self._write("adversarial", rows, won, points)
        self._write("predictions", rows, won, logits.argmax(dim=1))

    def drop(self, rows: Tensor, wrong: Tensor) -> None:
        """Take the images that turn out to be misclassified without an attack out of the correct ones."""
        self._write("correct", rows, wrong, ~wrong)

    def _write(self, name: str, rows: Tensor, which: Tensor, numbers: Tensor) -> None:
        """Write some numbers to their rows of the outcomes, without waiting for a GPU to learn which."""
        whole: Tensor = getattr(self._whole, name)
        if whole.device.type == "cpu":
            places = which.nonzero()[:, 0]
            if len(places):
                whole[rows[places]] = numbers[places]
        else:
            whole.index_copy_(0, torch.where(which, rows, len(whole) - 1), numbers)
