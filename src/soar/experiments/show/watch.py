"""What runs at the moment: a line for each job and a bar for all, or plain lines without a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Self, TextIO

from soar.experiments.jobs import Event, Job
from soar.experiments.plan import Plan
from soar.progress import Mode, shown_as
from soar.text import clock_time, duration

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live

_WIDEST_TITLE = 44
_BAR = 24


class Watch:
    """Show the events of an executor on standard error.

    Args:
        plan: what will be done
        room: how many jobs run at once
        mode: as in `soar.progress`
        interval: the least number of seconds between two plain lines about the progress of one job
        stream: where to write; standard error when None
        clock: seconds, from any origin
    """

    def __init__(
        self,
        plan: Plan,
        room: int = 1,
        mode: Mode = "auto",
        *,
        interval: float = 60.0,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.plan = plan
        self.room = room
        self._stream = sys.stderr if stream is None else stream
        self._mode = shown_as(mode, self._stream)
        self._interval = interval
        self._clock = clock
        self._running: dict[str, float] = {}
        self._jobs: dict[str, Job] = {}
        self._texts: dict[str, str] = {}
        self._printed_at: dict[str, float] = {}
        self._count = 0
        self._failed = 0
        self._done_work = 0.0
        self._live: Live | None = None

    def __enter__(self) -> Self:
        self._started = self._clock()
        if self._mode == "live":
            from rich.console import Console
            from rich.live import Live

            self._live = Live(
                get_renderable=self._picture,
                console=Console(file=self._stream),
                refresh_per_second=2,
                transient=True,
            )
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def __call__(self, event: Event) -> None:
        """Show what happened."""
        now = self._clock()
        if event.kind == "started":
            self._running[event.job.key], self._jobs[event.job.key] = now, event.job
            self._printed_at[event.job.key] = now
            if self._live is None:
                self._line(f"{self._counter()} {event.job.title}: begun")
        elif event.kind == "progress":
            self._texts[event.job.key] = event.text
            if self._live is None and now - self._printed_at.get(event.job.key, now) >= self._interval:
                self._printed_at[event.job.key] = now
                self._line(f"{self._counter()} {event.job.title}: {event.text}")
        else:
            self._ended(event)

    def _ended(self, event: Event) -> None:
        self._running.pop(event.job.key, None)
        self._count += 1
        self._done_work += event.job.seconds
        ending = event.ending
        if ending is None or ending.status == "done":
            took = f" in {duration(ending.seconds)}" if ending else ""
            self._line(f"{self._counter()} {event.job.title}: done{took}{self._left()}")
            return
        self._failed += 1
        reason = f": {ending.reason}" if ending.reason else ""
        self._line(f"{self._counter()} {event.job.title}: {ending.status}{reason}")

    def _counter(self) -> str:
        total = str(len(self.plan.todo))
        return f"[{self._count:>{len(total)}}/{total}]"

    def _left(self) -> str:
        left = self.seconds_left()
        return "" if left is None or self._count == len(self.plan.todo) else f", {duration(left)} left"

    def seconds_left(self) -> float | None:
        """Estimate the time that is left by how earlier estimates turned out; None at first."""
        elapsed = self._clock() - self._started
        if not self._done_work or not self.plan.work:
            return None
        # What runs has done a part of its work; no more than all of it.
        running = sum(
            min(self._jobs[key].seconds, self._clock() - began) for key, began in self._running.items()
        )
        share = min(1.0, (self._done_work + running) / self.plan.work)
        return elapsed * (1 - share) / share

    def _line(self, text: str) -> None:
        if self._live is not None:
            self._live.console.print(text, markup=False, highlight=False, soft_wrap=True)
        elif self._mode != "quiet":
            print(text, file=self._stream, flush=True)

    def _picture(self) -> RenderableType:
        """Draw a line for each running job and a bar for all."""
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        now = self._clock()
        made = Table.grid(padding=(0, 2), expand=True)
        made.add_column(no_wrap=True, overflow="ellipsis", max_width=_WIDEST_TITLE)
        made.add_column(no_wrap=True, justify="right")
        made.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
        for key, began in list(self._running.items()):
            made.add_row(
                Text(self._jobs[key].title), Text(clock_time(now - began)), Text(self._texts.get(key, ""))
            )
        total = len(self.plan.todo)
        left = self.seconds_left()
        parts = [
            f"{self._count} of {total} jobs",
            *([f"{self._failed} failed"] if self._failed else []),
        ]
        if left is None:
            left = self.plan.seconds(self.room) - (now - self._started)
        if left > 0:
            parts.append(f"about {duration(left)} left")
        bar = ProgressBar(total=total, completed=self._count, width=_BAR)
        made.add_row(bar, Text(clock_time(now - self._started)), Text(", ".join(parts)))
        return made
