"""What attacks that climb a loss along its gradient have in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, TypeVar

from torch import Tensor

from soar import losses
from soar.attacks.attack import Attack, Examples, check_counts


@dataclass(frozen=True)
class ClimbState:
    """The current point of each example, and the class it climbs to."""

    examples: Examples
    target: Tensor
    """the class to climb to, or -1 to climb away from the label"""
    points: Tensor
    step: Tensor
    """how many steps have been taken"""


A = TypeVar("A", bound=ClimbState)


class Ascent(Attack[A]):
    """What attacks that climb a loss have in common: k steps from k gradients, and a last prediction."""

    projects: ClassVar[bool] = True
    steps: int
    restarts: int
    loss: str | losses.Loss
    targets: int

    def __post_init__(self) -> None:
        check_counts(steps=self.steps, restarts=self.restarts)
        check_counts(least=0, targets=self.targets)
        if not callable(self.loss):
            losses.check_name(self.loss, "attack.loss")

    @property
    def gradients(self) -> int:
        """One for every step, for every example."""
        return self.steps

    @property
    def budget(self) -> int:
        """One prediction at the start and one after every step."""
        return self.steps + 1

    def entries(self, classes: int) -> int:
        """Count restarts times targets; there are at most as many targets as wrong classes."""
        return count_entries(self.restarts, self.targets, classes)

    def wants_gradient(self, state: A) -> Tensor:
        """Return which examples have a step left."""
        return state.step < self.steps

    def score(self, logits: Tensor, state: A) -> Tensor:
        """Return the loss, toward the target where there is one."""
        labels, target = state.examples.labels, state.target
        if callable(self.loss):
            return self.loss(logits, labels)
        # All examples of a run have a target or none has; asking their tensor would wait for a GPU.
        if state.examples.has_goal or self._chooses_targets(state.examples):
            return losses.TARGETED_LOSSES[self.loss](logits, labels, target)
        return losses.LOSSES[self.loss](logits, labels)

    def exhausted(self, state: A) -> Tensor:
        """Return which examples have been evaluated at their last point."""
        return state.step > self.steps

    def target_classes(self, examples: Examples) -> Tensor:
        """Return the class to climb to: the goal, or the one of the entry's rank; -1 for none."""
        if examples.logits is None or not self._chooses_targets(examples):
            return examples.goal
        rank = examples.entry % min(self.targets, examples.logits.shape[1] - 1)
        return losses.strongest_targets(examples.logits, examples.labels, rank)

    def _chooses_targets(self, examples: Examples) -> bool:
        return bool(self.targets) and examples.logits is not None and not examples.has_goal


def count_entries(restarts: int, targets: int, classes: int) -> int:
    """Count restarts times targets; there are at most as many targets as wrong classes.

    >>> count_entries(restarts=2, targets=9, classes=4), count_entries(restarts=2, targets=0, classes=4)
    (6, 2)
    """
    return restarts * max(1, min(targets, classes - 1))
