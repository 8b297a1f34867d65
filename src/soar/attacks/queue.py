"""Which examples are attacked next, which need no further attack, and how much of the work is done."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

_SECONDS_BETWEEN = 1.0


class QueueEntry(NamedTuple):
    """One restart or target of one example."""

    row: int
    entry: int


class Queue:
    """Every example's restarts and targets, in order, canceled as soon as one of them succeeds.

    Examples take turns: the first entry of every example comes before the second of any. When fewer examples
    are left than there are places in the batch, an example that has survived an entry may have several under
    way at once; one that has not would probably be fooled by the first and waste the others. The result is
    that of the *lowest* entry that succeeds, so it does not depend on how many ran side by side.

    Args:
        rows: the examples to attack
        entries: how many restarts and targets each has
        budget: how many predictions an entry takes at most
        clock: seconds, from any origin; the share of the work is estimated at most once a second

    >>> queue = Queue([7], entries=3)
    >>> queue.take(2), queue.take_ahead(2)
    ([QueueEntry(row=7, entry=0)], [])
    >>> queue.finish(QueueEntry(7, 0), fooled=False), queue.take(2), queue.take_ahead(2)
    (False, [QueueEntry(row=7, entry=1)], [QueueEntry(row=7, entry=2)])
    >>> queue.finish(QueueEntry(7, 1), fooled=True), queue.is_canceled(QueueEntry(7, 2))
    (True, True)
    """

    def __init__(
        self, rows: list[int], entries: int, budget: int = 1, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._entries, self._budget, self._clock = entries, budget, clock
        self._waiting = deque(rows)
        self._next = dict.fromkeys(rows, 0)
        self._live: dict[int, set[int]] = {row: set() for row in rows}
        self._solved = dict.fromkeys(rows, entries)
        self._survivors: dict[int, None] = {}
        self._canceled = False
        self._first = self._first_asked = self._first_survived = 0
        self._share, self._estimated_at = 0.0, -_SECONDS_BETWEEN

    def take(self, count: int) -> list[QueueEntry]:
        """Start examples that have nothing under way, at most `count` of them."""
        return [self._start(self._waiting.popleft()) for _ in range(min(count, len(self._waiting)))]

    def take_ahead(self, count: int) -> list[QueueEntry]:
        """Start further entries of survivors that have some under way, to fill an emptying batch."""
        jobs: list[QueueEntry] = []
        while len(jobs) < count:
            able = [
                row for row in self._survivors if self._live.get(row) and self._next[row] < self._solved[row]
            ]
            if not able:
                break
            jobs += [self._start(row) for row in able[: count - len(jobs)]]
        return jobs

    def finish(self, job: QueueEntry, *, fooled: bool, asked: int = 0) -> bool:
        """End an entry, and return whether that settles the example.

        Args:
            job: the entry
            fooled: whether it succeeded
            asked: how many predictions the example has taken so far
        """
        row, entry = job
        if entry == 0:
            self._first += 1
            self._first_asked += asked
            self._first_survived += not fooled
        live = self._live[row]
        live.discard(entry)
        if fooled:
            self._solved[row] = min(self._solved[row], entry)
            needless = {other for other in live if other > self._solved[row]}
            live -= needless
            self._canceled = self._canceled or bool(needless)
        else:
            self._survivors[row] = None
        if live:
            return False
        if self._next[row] < self._solved[row]:
            self._waiting.append(row)
            return False
        del self._live[row]
        self._survivors.pop(row, None)
        return True

    def share(self, asked: int) -> float:
        r"""Estimate the share of the work that is done, from 0 to 1.

        Counting examples misleads: the robust ones are settled last and take most of the work. With b
        predictions per entry at most, what is still to come is taken to be

            b/2 for every entry under way, b for every further entry of an example under way,
            m + s (n - 1) b for every example not begun

        where m is what first entries took so far, s the share of them that the example survived, and n the
        entries of an example.

        Args:
            asked: how many predictions were made so far
        """
        now = self._clock()
        if now - self._estimated_at < _SECONDS_BETWEEN:
            return self._share
        first = self._first_asked / self._first if self._first else self._budget
        survived = self._first_survived / self._first if self._first else 1.0
        begun = [row for row in self._live if self._next[row]]
        live = sum(map(len, self._live.values()))
        waiting = max(0, sum(self._solved[row] - self._next[row] for row in begun))
        fresh = first + survived * (self._entries - 1) * self._budget
        left = (live / 2 + waiting) * self._budget + (len(self._live) - len(begun)) * fresh
        self._share, self._estimated_at = (asked / (asked + left) if asked else 0.0), now
        return self._share

    def has_canceled(self) -> bool:
        """Return whether entries under way have become needless since the last call."""
        found, self._canceled = self._canceled, False
        return found

    def is_robust(self, row: int) -> bool:
        """Return whether no entry of an example has succeeded so far."""
        return self._solved[row] == self._entries

    def is_canceled(self, job: QueueEntry) -> bool:
        """Return whether an earlier entry of the example has succeeded."""
        return job.entry > self._solved[job.row]

    def _start(self, row: int) -> QueueEntry:
        entry = self._next[row]
        self._next[row] = entry + 1
        self._live[row].add(entry)
        return QueueEntry(row, entry)
