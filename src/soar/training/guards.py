"""Reasons to end a training early: figures that show that it goes wrong, and signals."""

from __future__ import annotations

import math
import signal
import threading
from dataclasses import dataclass
from types import FrameType
from typing import Any, Self

from soar.recipes.settings import GuardSettings
from soar.text import percent

_MEMORY = 0.95
# Gradients of an untrained network point anywhere: before this mean a fall means nothing.
_LEAST_ALIGNMENT = 0.25
# The last exists on Windows only, where it is what another process can send.
_NAMES = ("SIGINT", "SIGTERM", "SIGBREAK")
_WATCHED = tuple(getattr(signal, name) for name in _NAMES if hasattr(signal, name))


@dataclass
class Guards:
    """Running means of figures, and the checks of a training run.

    Args:
        settings: the limits
        mean_loss: the running mean of the loss, None before the first step
        mean_alignment: the running mean of the alignment of one-step objectives, None before the first step
        best_alignment: the highest running mean so far
    """

    settings: GuardSettings
    mean_loss: float | None = None
    mean_alignment: float | None = None
    best_alignment: float = 0.0

    def before_update(self, loss: float, grad_norm: float) -> str | None:
        """Check the step before its update, so that the weights never become infinite or NaN.

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

    def alignment(self, value: float) -> str | None:
        """Return why the gradients of a one-step attack indicate catastrophic overfitting, once; else None.

        Before robust accuracy collapses, the gradient at the end of the step turns away from that at its
        start: the loss has become curved just where training looks. No validation is needed to see it.

        Args:
            value: the mean cosine between the two gradients over the batch; NaN is passed over
        """
        if self.settings.overfitting == "off" or math.isnan(value):
            return None
        limit = (1 - self.settings.alignment_drop) * self.best_alignment
        before = value if self.mean_alignment is None else self.mean_alignment
        self.mean_alignment = _MEMORY * before + (1 - _MEMORY) * value
        self.best_alignment = max(self.best_alignment, self.mean_alignment)
        if not self.mean_alignment < limit <= before or self.best_alignment < _LEAST_ALIGNMENT:
            return None
        return (
            f"catastrophic overfitting: the alignment of gradients fell from {self.best_alignment:.2f} to "
            f"{self.mean_alignment:.2f}, more than {self.settings.alignment_drop:.0%} (guards.alignment_drop)"
        )

    def overfitting(self, best: float, last: float) -> str | None:
        """Return why the latest validation indicates catastrophic overfitting, or None.

        Args:
            best: the highest robust validation accuracy so far
            last: the latest one
        """
        if self.settings.overfitting == "off" or best - last <= self.settings.overfitting_drop:
            return None
        return (
            f"catastrophic overfitting: robust validation accuracy fell from {percent(best)} "
            f"to {percent(last)}, more than {self.settings.overfitting_drop:.0%} (guards.overfitting_drop)"
        )


class StopRequest:
    """Turn SIGINT, SIGTERM and, on Windows, SIGBREAK into a flag that a loop checks when it can stop.

    A second signal has its usual effect. Outside the main thread, where Python allows no handlers, the flag
    stays unset.

    Attributes:
        signal: the name of the signal that was received, or None
    """

    def __init__(self) -> None:
        self.signal: str | None = None
        self._previous: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._previous = {number: signal.signal(number, self._handle) for number in _WATCHED}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._previous = {}

    def _handle(self, number: int, _: FrameType | None) -> None:
        if self.signal is None:
            self.signal = signal.Signals(number).name
            return
        self.__exit__()
        signal.raise_signal(number)
