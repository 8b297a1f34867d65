"""Where a training stands: what its loop decides by, and what a checkpoint holds besides tensors."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from soar.training.guards import Guards
from soar.training.validation import Scores


@dataclass
class Standing:
    """The figures of a training that change from update to update.

    Args:
        guards: the running figures by which trouble is noticed
        step: updates made
        best: the highest validation so far
        last: the newest validation
    """

    guards: Guards
    step: int = 0
    best: Scores | None = None
    last: Scores | None = None

    def validated(self, scores: Scores, select: str) -> None:
        """Note a validation, as the best one where it is.

        >>> from soar.recipes.settings import GuardSettings
        >>> standing = Standing(Guards(GuardSettings()))
        >>> for step, robust in enumerate((0.3, 0.4, 0.2), start=1):
        ...     standing.validated(Scores(step, 0.8, robust), "robust")
        >>> standing.best.step, standing.last.step
        (2, 3)
        """
        self.last = scores
        if scores.beats(self.best, select):
            self.best = scores

    def state(self) -> dict[str, Any]:
        """Return the figures in a form that JSON can hold."""
        return {
            "step": self.step,
            "best": asdict(self.best) if self.best else None,
            "last": asdict(self.last) if self.last else None,
            "guards": self.guards.state(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Go back to the figures of a checkpoint."""
        self.step = state["step"]
        self.best = Scores(**state["best"]) if state["best"] else None
        self.last = Scores(**state["last"]) if state["last"] else None
        self.guards = Guards.restore(self.guards.settings, state["guards"])
