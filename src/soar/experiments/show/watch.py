"""Jobs that run: a line for each that begins or ends, and a bar for all."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Self, TextIO

from soar.experiments.jobs import Event
from soar.experiments.plan import Plan
from soar.progress import Mode, Progress
from soar.text import duration


class Watch:
    """Show the events of an executor on standard error.

    Args:
        plan: what will be done
        mode: as in `soar.progress`
        stream: where to write; standard error when None
        clock: seconds, from any origin
    """

    def __init__(
        self,
        plan: Plan,
        mode: Mode = "auto",
        *,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._plan = plan
        self._done = 0.0
        self._bar = Progress(
            len(plan.todo), "all jobs", mode, unit="jobs", interval=60.0, stream=stream, clock=clock
        )

    def __enter__(self) -> Self:
        self._bar.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        if self._plan.todo:
            self._bar.__exit__()

    def __call__(self, event: Event) -> None:
        """Show what happened."""
        title, ending = event.job.title, event.ending
        if event.kind == "started":
            self._bar.note(f"{title}: begun")
        elif event.kind == "progress":
            self._bar.advance(0, **{title: event.text})
        elif ending is not None:
            self._done += event.job.seconds
            if self._plan.work:
                # Jobs take unequal times, and estimates turn out wrong by about the same factor.
                self._bar.expect(min(1.0, self._done / self._plan.work))
            took = f" in {duration(ending.seconds)}" if ending.seconds else ""
            reason = f": {ending.reason}" if ending.reason else ""
            self._bar.note(f"{title}: {ending.status}{took if ending.status == 'done' else reason}")
            self._bar.advance(1, **{title: None})
