"""Jobs, how they end, what executes them, and in which order: the small interface of all executors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

Kind = Literal["train", "measure"]
Status = Literal["done", "failed", "skipped"]


@dataclass(frozen=True, kw_only=True)
class Job:
    """A training or a measurement as plain values, so that it can go to another process or machine.

    Args:
        key: a hash of everything that decides the result; two jobs with one key are the same job
        kind: what the worker does with it
        title: what to call it
        payload: what the worker needs to know, JSON values only
        needs: keys of jobs that have to be done before
        seconds: how long it will probably take on one core
        about: a sentence about it, shown in the plan
        alone: whether no other job may run at the same time, because it measures times
    """

    key: str
    kind: Kind
    title: str
    payload: dict[str, Any]
    needs: tuple[str, ...] = ()
    seconds: float = 0.0
    about: str = ""
    alone: bool = False

    @property
    def processes(self) -> int:
        """The number of processes it takes."""
        return int(self.payload.get("processes", 1))


@dataclass(frozen=True)
class Ending:
    """How a job ended.

    Args:
        status: done, failed, or skipped because something it needs was not done
        reason: one line, where it was not done
        seconds: how long it took
    """

    status: Status
    reason: str = ""
    seconds: float = 0.0


@dataclass(frozen=True)
class Event:
    """Something that happened while jobs run."""

    job: Job
    kind: Literal["started", "progress", "ended"]
    ending: Ending | None = None
    text: str = ""
    """a line of progress, such as the worker's last"""


class Executor(Protocol):
    """Does jobs, in an order that respects their needs, as many at once as there is room for."""

    def run(self, jobs: Sequence[Job], listen: Callable[[Event], None]) -> dict[str, Ending]:
        """Do all jobs; one that fails does not stop the others.

        Args:
            jobs: what to do; what they need is among them or done already
            listen: receives what happens

        Raises:
            KeyboardInterrupt: when a signal asked to stop; workers have saved what they can resume from
        """
        ...


class JobQueue:
    """Jobs that wait, in the order in which they are given, and how the others ended.

    Args:
        jobs: what to do; what they need is among them or done already
        listen: receives what starts and ends

    Attributes:
        endings: by key, in the order in which jobs ended
    """

    def __init__(self, jobs: Sequence[Job], listen: Callable[[Event], None]) -> None:
        by_key = {job.key: job for job in jobs}
        self._needs = {key: [one for one in job.needs if one in by_key] for key, job in by_key.items()}
        self._waiting = list(by_key.values())
        self._listen = listen
        self.endings: dict[str, Ending] = {}

    @property
    def is_empty(self) -> bool:
        """Whether no job waits."""
        return not self._waiting

    def start(self, running: Iterable[Job], processes: int) -> Job | None:
        """Take the next job that can start beside those that run.

        A job that wants more processes than there are, or no other job beside it, starts when nothing runs.

        Args:
            running: jobs that run now
            processes: how many there may be in all

        >>> queue = JobQueue([Job(key="a", kind="train", title="a", payload={"processes": 2})], print)
        >>> other = Job(key="b", kind="measure", title="b", payload={})
        >>> queue.start([other], 2) is None
        True
        """
        beside = list(running)
        room = processes - sum(processes if job.alone else job.processes for job in beside)
        for job in self._waiting:
            ready = all(self._ended_well(key) for key in self._needs[job.key])
            if ready and (not beside or (job.processes <= room and not job.alone)):
                self._waiting.remove(job)
                self._listen(Event(job, "started"))
                return job
        return None

    def end(self, job: Job, ending: Ending) -> None:
        """Record how a job ended; whatever needs one that failed is skipped."""
        self.endings[job.key] = ending
        self._listen(Event(job, "ended", ending))
        if ending.status == "done":
            return
        reason = ending.reason if ending.status == "skipped" else f"it needs '{job.title}', which failed"
        for other in [one for one in self._waiting if job.key in self._needs[one.key]]:
            if other in self._waiting:
                self._waiting.remove(other)
                self.end(other, Ending("skipped", reason))

    def _ended_well(self, key: str) -> bool:
        return key in self.endings and self.endings[key].status == "done"
