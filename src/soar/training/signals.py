"""Stop gently when asked to: the first signal asks, the second one insists."""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType
from typing import Any, Self

_WATCHED = (signal.SIGINT, signal.SIGTERM)


class StopRequest:
    """Turn SIGINT and SIGTERM into a flag that a loop reads when it suits it.

    A second signal does what it would have done without this. Outside the main thread, where Python
    allows no handlers, the flag simply stays unset.

    Attributes:
        signal: the name of the signal that asked to stop, None as long as there was none
    """

    def __init__(self) -> None:
        self.signal: str | None = None
        self._previous: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._previous = {number: signal.signal(number, self._note) for number in _WATCHED}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._previous = {}

    def _note(self, number: int, _: FrameType | None) -> None:
        if self.signal is None:
            self.signal = signal.Signals(number).name
            return
        self.__exit__()
        os.kill(os.getpid(), number)
