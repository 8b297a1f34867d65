"""Reasons to end a training early: figures that show that it goes wrong, and signals."""

from __future__ import annotations

import math
import os
import signal
import threading
from dataclasses import dataclass
from types import FrameType
from typing import Any, Self

from soar.recipes.settings import GuardSettings
from soar.text import percent

_MEMORY = 0.95
_WATCHED = (signal.SIGINT, signal.SIGTERM)


@dataclass
class Guards:
    """The running mean of the loss, and the checks of a training run.

    Args:
        settings: the limits
        mean_loss: the running mean, None before the first step
    """

    settings: GuardSettings
    mean_loss: float | None = None

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
    """Turn SIGINT and SIGTERM into a flag that a loop checks when it can stop.

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
        os.kill(os.getpid(), number)
