"""Do jobs in processes of this machine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from queue import SimpleQueue
from types import FrameType

import msgspec

from soar.experiments.jobs import Ending, Event, Job, JobQueue

_ENV = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
# What asks a worker to save and end. On Windows SIGTERM would end it at once, and Ctrl-Break goes to a group.
_STOP = getattr(signal, "CTRL_BREAK_EVENT", signal.SIGTERM)
_GROUP = getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)


class Local:
    """Each job in a process of its own, so that a crash of one harms no other.

    Args:
        processes: how many at once; by default as many as the cores have room for
        threads: CPU threads of each
    """

    def __init__(self, processes: int | None = None, threads: int = 1) -> None:
        self.processes = processes or max(1, cores() // threads)
        self.threads = threads

    def run(self, jobs: Sequence[Job], listen: Callable[[Event], None]) -> dict[str, Ending]:
        """Do all jobs; one that fails does not stop the others.

        Args:
            jobs: what to do; what they need is among them or done already
            listen: receives what happens

        Raises:
            KeyboardInterrupt: when a signal asked to stop; workers have saved what they can resume from
        """
        queue = JobQueue(jobs, listen)
        running: dict[str, _Worker] = {}
        news: SimpleQueue[tuple[_Worker, str | None]] = SimpleQueue()
        with terminable():
            try:
                while running or not queue.is_empty:
                    self._fill(queue, running, news)
                    if not running:
                        continue
                    worker, line = news.get()
                    if line is not None:
                        listen(Event(worker.job, "progress", text=line))
                    else:
                        del running[worker.job.key]
                        queue.end(worker.job, worker.ending())
            except BaseException:
                _stop([*running.values()])
                raise
        return queue.endings

    def _fill(
        self, queue: JobQueue, running: dict[str, _Worker], news: SimpleQueue[tuple[_Worker, str | None]]
    ) -> None:
        """Start what there is room for."""
        while True:
            job = queue.start([worker.job for worker in running.values()], self.processes)
            if job is None:
                return
            try:
                running[job.key] = _Worker(job, self.threads, news)
            except OSError as error:
                queue.end(job, Ending("failed", f"no process could be started for it ({error.strerror})"))


class _Worker:
    """A process that does one job, and a thread that reads its output.

    Args:
        job: what it does
        threads: CPU threads of it
        news: gets its lines, and None when it has ended
    """

    def __init__(self, job: Job, threads: int, news: SimpleQueue[tuple[_Worker, str | None]]) -> None:
        self.job, self._began = job, time.monotonic()
        self._last: deque[str] = deque(maxlen=20)
        # In a session of its own, so that Ctrl-C on a terminal reaches it only through `stop`, and once.
        self.process = subprocess.Popen(
            [sys.executable, "-m", "soar.experiments.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
            env=os.environ | dict.fromkeys(_ENV, str(threads)) | {"PYTHONUTF8": "1"},
            start_new_session=True,
            creationflags=_GROUP,
        )
        threading.Thread(target=self._read, args=(news,), daemon=True).start()

    def _read(self, news: SimpleQueue[tuple[_Worker, str | None]]) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None
        with suppress(BrokenPipeError), self.process.stdin as stdin:
            stdin.write(msgspec.json.encode(self.job).decode())
        with self.process.stdout as lines:
            for line in lines:
                if line.strip():
                    self._last.append(line.strip())
                    news.put((self, line.strip()))
        self.process.wait()
        news.put((self, None))

    def ending(self) -> Ending:
        """Return how the process ended."""
        seconds = round(time.monotonic() - self._began, 1)
        code = self.process.returncode
        if code == 0:
            return Ending("done", seconds=seconds)
        if code < 0:
            # What it started itself is not left behind.
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGTERM)
        return Ending("failed", self._reason(code), seconds)

    def _reason(self, code: int) -> str:
        if code < 0:
            name = signal.Signals(-code).name
            return f"its process was ended by {name}{' (out of memory?)' if name == 'SIGKILL' else ''}"
        if code in (128 + signal.SIGINT, 128 + signal.SIGTERM):
            return "its process was asked to stop; the same command goes on from there"
        mistakes = [line for line in self._last if line.startswith("soar: ")]
        last = [*(mistakes or self._last)][-1:] or [f"exit code {code}"]
        return str(last[0]).removeprefix("soar: ")


def cores() -> int:
    """Return the number of cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _stop(workers: Sequence[_Worker]) -> None:
    """Ask workers to save and end, and wait for them; a second interrupt ends them at once."""
    try:
        for worker in workers:
            worker.process.send_signal(_STOP)
        for worker in workers:
            worker.process.wait()
    except KeyboardInterrupt:
        for worker in workers:
            worker.process.kill()


@contextmanager
def terminable() -> Iterator[None]:
    """Let SIGTERM do what SIGINT does; outside the main thread Python allows no handlers."""

    def interrupt(number: int, _: FrameType | None) -> None:
        raise KeyboardInterrupt(f"stopped by {signal.Signals(number).name}")

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)
