"""Watch a training for the ways in which it goes wrong."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, Self

from soar.recipes.settings import GuardSettings
from soar.text import percent

_MEMORY = 0.95


@dataclass
class Guards:
    """The running figures by which trouble is noticed, and the verdicts on them.

    Args:
        settings: the limits
        mean_loss: the running mean of the loss, None before the first step
        best_robust: the highest robust validation accuracy so far
        last_robust: the newest robust validation accuracy
    """

    settings: GuardSettings
    mean_loss: float | None = None
    best_robust: float | None = None
    last_robust: float | None = None

    def before_update(self, loss: float, grad_norm: float) -> str | None:
        """Judge a step before its update, so that the weights never become infinite or NaN.

        A loss counts as exploding when it exceeds `explosion` times its running mean or times 1, whichever
        is more: a nearly fitted training set has tiny losses, of which one odd batch is many times the mean.

        Args:
            loss: the loss of the batch
            grad_norm: the l2 norm of the gradient

        Returns:
            Why training must stop, or None.
        """
        if not math.isfinite(loss):
            return f"the loss is {loss}"
        if not math.isfinite(grad_norm):
            return f"the gradient norm is {grad_norm} (loss {loss:.4g})"
        mean = loss if self.mean_loss is None else self.mean_loss
        limit = self.settings.explosion * max(mean, 1.0)
        if loss > limit:
            return (
                f"the loss {loss:.4g} is above {limit:.4g}, "
                f"{self.settings.explosion:g} times its running mean (guards.explosion)"
            )
        self.mean_loss = _MEMORY * mean + (1 - _MEMORY) * loss
        return None

    def after_validation(self, robust: float) -> None:
        """Note a robust validation accuracy."""
        self.last_robust = robust
        self.best_robust = robust if self.best_robust is None else max(self.best_robust, robust)

    @property
    def overfitting(self) -> str | None:
        """Why the newest validation speaks of catastrophic overfitting, or None."""
        if self.best_robust is None or self.last_robust is None or self.settings.overfitting == "off":
            return None
        if self.best_robust - self.last_robust <= self.settings.overfitting_drop:
            return None
        return (
            f"catastrophic overfitting: robust validation accuracy fell from {percent(self.best_robust)} "
            f"to {percent(self.last_robust)}, more than {self.settings.overfitting_drop:.0%} "
            "(guards.overfitting_drop)"
        )

    def state(self) -> dict[str, float | None]:
        """Return the running figures in a form that JSON can hold."""
        figures = asdict(self)
        del figures["settings"]
        return figures

    @classmethod
    def restore(cls, settings: GuardSettings, state: dict[str, Any]) -> Self:
        """Continue from the running figures of a checkpoint."""
        return cls(settings, **state)
