"""Points that were found elsewhere, shown to the model under attack: one look an image."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar, Generic, TypeVar

import torch
from torch import Tensor

from soar.attacks.attack import Answer, Examples
from soar.losses import margin
from soar.threat import Threat


@dataclass(frozen=True)
class ShownState:
    """The points to show, and whether they have been shown."""

    examples: Examples
    points: Tensor
    shown: Tensor


S = TypeVar("S", bound=ShownState)


class Shown(ABC, Generic[S]):
    """An attack whose search is over when the engine begins; `start` says where the points come from."""

    stays_inside: ClassVar[bool] = True
    """the engine brings every point into the ball"""
    starts_at_image: ClassVar[bool] = False
    """the only query is the point that was found"""

    @abstractmethod
    def start(self, examples: Examples, threat: Threat) -> S:
        """Find the points; none has been shown."""

    @property
    def budget(self) -> int:
        """One prediction of the model under attack."""
        return 1

    def entries(self, classes: int) -> int:  # noqa: ARG002 - one whatever the classes
        """Every example is shown one point."""
        return 1

    def query(self, state: S) -> Tensor:
        """Show the points."""
        return state.points

    def wants_gradient(self, state: S) -> Tensor:
        """Nothing is asked of the model under attack but its answer."""
        return torch.zeros_like(state.shown)

    def score(self, logits: Tensor, state: S) -> Tensor:
        """Return the margin, for the record."""
        return margin(logits, state.examples.labels)

    def update(self, state: S, answer: Answer, threat: Threat) -> S:  # noqa: ARG002
        """Note that the points were shown."""
        return replace(state, shown=torch.ones_like(state.shown))

    def exhausted(self, state: S) -> Tensor:
        """One look is all there is."""
        return state.shown
