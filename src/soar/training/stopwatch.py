"""How long a training run has taken, over all its sessions."""

from __future__ import annotations

import time
from typing import Literal

Clock = Literal["wall", "cpu"]


def read(clock: Clock) -> float:
    """Return the seconds of a clock from any origin; "cpu" adds up all threads of this process."""
    return time.process_time() if clock == "cpu" else time.monotonic()


class Stopwatch:
    """Seconds that a training run has taken so far; the time between two sessions does not count."""

    def __init__(self) -> None:
        self.start()

    def start(self, *, wall: float = 0.0, cpu: float = 0.0) -> None:
        """Start a session.

        Args:
            wall: wall-clock seconds of the sessions before
            cpu: CPU seconds of the sessions before
        """
        self._origins: dict[Clock, float] = {"wall": read("wall") - wall, "cpu": read("cpu") - cpu}

    def seconds(self, clock: Clock) -> float:
        """Return the seconds of all sessions."""
        return read(clock) - self._origins[clock]
