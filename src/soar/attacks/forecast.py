"""How much of a run is done, so that the time that is left can be told honestly."""

from __future__ import annotations

import time
from collections.abc import Callable

from soar.attacks.queue import Queue

_SECONDS_BETWEEN = 1.0


class Forecast:
    r"""Guesses the share of a run's predictions that lie behind it.

    Counting examples misleads: the robust ones are settled last and take most of the work. With b predictions
    an entry at most, what is still to come is taken to be

        b/2 for every entry under way, b for every further entry of an example under way,
        m + s (n - 1) b for every example not begun

    where m is what first entries took so far, s the share of them that the example survived, and n the
    entries of an example.

    Args:
        queue: who is still to be attacked
        budget: b
        entries: n
        clock: seconds, from any origin; a guess is made at most once a second
    """

    def __init__(
        self, queue: Queue, budget: int, entries: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._queue, self._budget, self._entries, self._clock = queue, budget, entries, clock
        self._asked = 0
        self._first = self._first_asked = self._first_survived = 0
        self._share, self._guessed_at = 0.0, -_SECONDS_BETWEEN

    def asked(self, count: int) -> None:
        """Note predictions that were made."""
        self._asked += count

    def ended_first(self, asked: int, *, fooled: bool) -> None:
        """Note that an example's first entry ended after so many predictions."""
        self._first += 1
        self._first_asked += asked
        self._first_survived += not fooled

    def share(self) -> float:
        """Return the share of the work that is done, from 0 to 1."""
        now = self._clock()
        if now - self._guessed_at >= _SECONDS_BETWEEN:
            self._share, self._guessed_at = self._guess(), now
        return self._share

    def _guess(self) -> float:
        unbegun, live, waiting = self._queue.outlook()
        first = self._first_asked / self._first if self._first else self._budget
        survived = self._first_survived / self._first if self._first else 1.0
        fresh = first + survived * (self._entries - 1) * self._budget
        left = (live / 2 + waiting) * self._budget + unbegun * fresh
        return self._asked / (self._asked + left) if self._asked else 0.0
