"""Who is attacked next, and who need not be attacked any more."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

import torch
from torch import Tensor


class Job(NamedTuple):
    """One restart or target of one example."""

    row: int
    entry: int


class Queue:
    """Every example's restarts and targets, in order, cancelled as soon as one of them succeeds.

    Examples take turns: everybody's first entry comes before anybody's second. When fewer examples are left
    than there are places in the batch, an example that has survived an entry may have several under way at
    once; one that has not would probably fall to the first and waste the others. The result is that of the
    *lowest* entry that succeeds, so it does not depend on how many ran side by side.

    Args:
        rows: the examples to attack
        entries: how many restarts and targets each has

    >>> queue = Queue([7], entries=3)
    >>> queue.take(2), queue.take_ahead(2)
    ([Job(row=7, entry=0)], [])
    >>> queue.finish(Job(7, 0), fooled=False), queue.take(2), queue.take_ahead(2)
    (False, [Job(row=7, entry=1)], [Job(row=7, entry=2)])
    >>> queue.finish(Job(7, 1), fooled=True), queue.is_cancelled(Job(7, 2))
    (True, True)
    """

    def __init__(self, rows: list[int], entries: int) -> None:
        self._entries = entries
        self._waiting = deque(rows)
        self._next = dict.fromkeys(rows, 0)
        self._live: dict[int, set[int]] = {row: set() for row in rows}
        self._solved = dict.fromkeys(rows, entries)
        self._survivors: dict[int, None] = {}
        self._cancelled = False

    def take(self, count: int) -> list[Job]:
        """Start examples that have nothing under way, at most `count` of them."""
        return [self._start(self._waiting.popleft()) for _ in range(min(count, len(self._waiting)))]

    def take_ahead(self, count: int) -> list[Job]:
        """Start further entries of survivors that have some under way, to fill an emptying batch."""
        jobs: list[Job] = []
        while len(jobs) < count:
            able = [
                row for row in self._survivors if self._live.get(row) and self._next[row] < self._solved[row]
            ]
            if not able:
                break
            jobs += [self._start(row) for row in able[: count - len(jobs)]]
        return jobs

    def finish(self, job: Job, *, fooled: bool) -> bool:
        """Note that an entry ended; tell whether that settles the example."""
        row, entry = job
        live = self._live[row]
        live.discard(entry)
        if fooled:
            self._solved[row] = min(self._solved[row], entry)
            needless = {other for other in live if other > self._solved[row]}
            live -= needless
            self._cancelled = self._cancelled or bool(needless)
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

    def outlook(self) -> tuple[int, int, int]:
        """Count the examples not begun, the entries under way, and those that may follow them."""
        unbegun = sum(self._next[row] == 0 for row in self._live)
        live = sum(map(len, self._live.values()))
        waiting = sum(self._solved[row] - self._next[row] for row in self._live if self._next[row])
        return unbegun, live, max(0, waiting)

    def has_cancelled(self) -> bool:
        """Return whether entries under way have become needless since this was last asked."""
        found, self._cancelled = self._cancelled, False
        return found

    def is_cancelled(self, job: Job) -> bool:
        """Return whether an earlier entry of the example has succeeded."""
        return job.entry > self._solved[job.row]

    def _start(self, row: int) -> Job:
        entry = self._next[row]
        self._next[row] = entry + 1
        self._live[row].add(entry)
        return Job(row, entry)


def columns(jobs: list[Job], device: torch.device) -> tuple[Tensor, Tensor]:
    """Return the rows and the entries of some jobs as tensors."""
    table = torch.tensor(jobs, dtype=torch.int64, device=device).reshape(-1, 2)
    return table[:, 0], table[:, 1]
