"""Progress of a long computation: a live bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, Self, TextIO

from soar.errors import printable
from soar.text import clock_time

if TYPE_CHECKING:
    import rich.progress

Mode = Literal["auto", "live", "plain", "quiet"]
Value = float | str

_WIDE = 120
_BAR = 20


class Progress:
    """Count finished units and show them, with the speed, the time left and any named figures.

    Progress goes to standard error, so that results on standard output can be piped away.

    Args:
        total: the number of units; None if it is not known, then neither a share nor the time left is shown
        label: the name of the computation, such as "training"
        mode: "live" draws a bar, "plain" writes a line now and then, "quiet" writes nothing;
            "auto" is live on a terminal and plain elsewhere
        done: units finished earlier, for a resumed computation; they do not count for the speed
        unit: what is counted
        interval: the least number of seconds between two plain lines
        stream: where to write; standard error when None
        clock: seconds, from any origin

    >>> times = iter([0.0, 2.0, 4.0])
    >>> bar = Progress(400, "training", "plain", stream=sys.stdout, clock=lambda: next(times))
    >>> with bar:
    ...     bar.advance(100, loss=0.6931, robust="41.0%")
    training  100/400 images  25%  0:00:06 left  loss 0.6931  robust 41.0%  50 images/s
    training  100/400 images  25%  0:00:04 taken  loss 0.6931  robust 41.0%  25 images/s
    """

    def __init__(
        self,
        total: int | None,
        label: str,
        mode: Mode = "auto",
        *,
        done: int = 0,
        unit: str = "images",
        interval: float = 10.0,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.total = total
        self.label = printable(label)
        self.done = done
        self.first = done
        self._unit = unit
        self._interval = interval
        self._stream = sys.stderr if stream is None else stream
        self._mode = shown_as(mode, self._stream)
        self._clock = clock
        self._fields: dict[str, Value] = {}
        self._share: float | None = None
        self._live: rich.progress.Progress | None = None

    def __enter__(self) -> Self:
        self._started = self._clock()
        self._last_line: float | None = None
        if self._mode == "live":
            self._live = _live_bar(self._stream)
            self._task = self._live.add_task(self.label, total=self.total, share=self._percent, status="")
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._draw(self._live, self._clock(), at_end=True)
            self._live.stop()
            self._live = None
        elif self._mode == "plain":
            self._write(self._line(self._clock(), at_end=True))

    def advance(self, n: int = 1, **fields: Value | None) -> None:
        """Count `n` more units and show the newest figures; earlier ones stay until replaced.

        Args:
            n: how many units were finished; 0 only shows the figures
            fields: figures by name; numbers are shortened to four digits, text is shown as it is, and
                None removes a figure
        """
        self.done += n
        for name, value in fields.items():
            if value is None:
                self._fields.pop(name, None)
            else:
                self._fields[name] = value
        if self._mode == "quiet":
            return
        now = self._clock()
        if self._live is not None:
            self._draw(self._live, now, at_end=False)
        elif self._last_line is None or now - self._last_line >= self._interval:
            self._last_line = now
            self._write(self._line(now, at_end=False))

    def expect(self, share: float) -> None:
        """Set the share of the work that is done, where units take unequal times.

        Args:
            share: from 0 to 1; the time left is estimated from it instead of from the units
        """
        self._share = share

    def note(self, text: str) -> None:
        """Print a line that stays on the screen, above a live bar."""
        text = printable(text)
        if self._live is not None:
            self._live.console.print(text, markup=False, highlight=False)
        elif self._mode != "quiet":
            self._write(text)

    @property
    def _is_complete(self) -> bool:
        return self.total is not None and self.done >= self.total

    @property
    def _percent(self) -> str:
        """The finished share, rounded down, so that it is 100% only when nothing is left."""
        if self.total is None:
            return ""
        return "100%" if self._is_complete else f"{100 * self.done // self.total}%"

    def _draw(self, live: rich.progress.Progress, now: float, *, at_end: bool) -> None:
        width = live.console.width
        room = width - len(f"{self.label} 100% ") - (_BAR + 1 if width >= _WIDE else 0)
        status = self._status(now, at_end=at_end, room=room)
        live.update(self._task, completed=self.done, total=self.total, share=self._percent, status=status)

    def _line(self, now: float, *, at_end: bool) -> str:
        count = (
            f"{self.done} {self._unit}" if self.total is None else f"{self.done}/{self.total} {self._unit}"
        )
        parts = [self.label, count, self._percent, self._status(now, at_end=at_end)]
        return "  ".join(filter(None, parts))

    def _status(self, now: float, *, at_end: bool, room: float = math.inf) -> str:
        """Return the time, then the figures, then the speed if there is room for it."""
        elapsed = now - self._started
        speed = (self.done - self.first) / elapsed if elapsed > 0 else 0.0
        parts = []
        if at_end or self._is_complete:
            parts.append(f"{clock_time(elapsed)} taken")
        elif self._share:
            parts.append(f"{clock_time(elapsed * (1 - self._share) / self._share)} left")
        elif speed and self.total is not None:
            parts.append(f"{clock_time((self.total - self.done) / speed)} left")
        parts += [f"{name.replace('_', ' ')} {_short(value)}" for name, value in self._fields.items()]
        pace = [f"{f'{speed:.0f}' if speed >= 10 else f'{speed:.2g}'} {self._unit}/s"] if speed else []
        whole = "  ".join([*parts, *pace])
        return whole if len(whole) <= room else "  ".join(parts)

    def _write(self, line: str) -> None:
        print(line, file=self._stream, flush=True)


def shown_as(mode: Mode, stream: TextIO) -> Mode:
    """Resolve "auto" for a stream: live on a terminal, plain elsewhere."""
    if mode != "auto":
        return mode
    return "live" if stream.isatty() else "plain"


def _live_bar(stream: TextIO) -> rich.progress.Progress:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn
    from rich.table import Column

    console = Console(file=stream)
    whole = Column(no_wrap=True)
    # On a narrow terminal the figures matter more than a bar.
    bar: list[ProgressColumn] = [BarColumn(bar_width=_BAR)] if console.width >= _WIDE else []
    return Progress(
        TextColumn("{task.description}", markup=False, table_column=whole),
        *bar,
        # Not rich's own column, which rounds 99.6% up.
        TextColumn("{task.fields[share]:>4}", markup=False, table_column=whole),
        TextColumn(
            "{task.fields[status]}",
            markup=False,
            table_column=Column(no_wrap=True, overflow="ellipsis", ratio=1),
        ),
        console=console,
        expand=True,
    )


def _short(value: Value) -> str:
    return printable(value) if isinstance(value, str) else f"{value:.4g}"
