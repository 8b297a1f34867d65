"""A piece of work that some process does: train a network, or measure something about one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

Kind = Literal["train", "measure"]
Status = Literal["done", "failed", "skipped"]


@dataclass(frozen=True, kw_only=True)
class Job:
    """What is to be done, as plain values, so that it can go to another process or machine.

    Args:
        key: a hash of everything that decides the result; two jobs of one key are the same job
        kind: what the worker does with it
        title: what to call it
        payload: what the worker needs to know, JSON values only
        needs: keys of jobs that have to be done before
        seconds: how long it will probably take on one core
        alone: whether no other job may run at the same time, because it takes times itself
    """

    key: str
    kind: Kind
    title: str
    payload: dict[str, Any]
    needs: tuple[str, ...] = ()
    seconds: float = 0.0
    alone: bool = False

    def shared_by(self, processes: int) -> Job:
        """Give the job with a training that so many processes share, batch by batch; others stay as they are.

        >>> job = Job(key="a", kind="train", title="a", payload={"processes": 1})
        >>> job.shared_by(8).payload
        {'processes': 8}
        """
        return (
            replace(self, payload=self.payload | {"processes": processes}) if self.kind == "train" else self
        )


@dataclass(frozen=True)
class Ending:
    """How a job ended.

    Args:
        status: done; failed by itself; skipped because something it needs was not done
        reason: one line, where it was not done
        seconds: how long it took
    """

    status: Status
    reason: str = ""
    seconds: float = 0.0


@dataclass(frozen=True)
class Event:
    """Something to tell the reader while jobs run."""

    job: Job
    kind: Literal["started", "progress", "ended"]
    ending: Ending | None = None
    text: str = ""
    """a line of progress, such as the worker's last"""


class Executor(Protocol):
    """Does jobs, in an order that respects what they need, as many at once as there is room for."""

    def run(self, jobs: Sequence[Job], listen: Callable[[Event], None]) -> dict[str, Ending]:
        """Do all jobs; one that fails does not stop the others.

        Args:
            jobs: what to do; what they need is among them or done already
            listen: is told what happens

        Raises:
            KeyboardInterrupt: when a signal asked to stop; workers are stopped so that they can go on later
        """
        ...
