"""Which job comes next, for executors: what it needs is done, and the most work hangs on it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from graphlib import TopologicalSorter

from soar.experiments.job import Ending, Event, Job


class Order:
    """Jobs that wait, and how those that do not wait any more ended.

    Args:
        jobs: what to do; what they need is among them or done already
        listen: is told what starts and ends

    Raises:
        ValueError: if jobs need each other in a circle

    Attributes:
        endings: by key, in the order in which jobs ended
    """

    def __init__(self, jobs: Sequence[Job], listen: Callable[[Event], None]) -> None:
        by_key = {job.key: job for job in jobs}
        self._needs = {key: [one for one in job.needs if one in by_key] for key, job in by_key.items()}
        chains = _chains(by_key, self._needs)
        self._waiting = sorted(by_key.values(), key=lambda job: -chains[job.key])
        self._listen = listen
        self.endings: dict[str, Ending] = {}

    @property
    def is_over(self) -> bool:
        """Whether no job waits."""
        return not self._waiting

    def start(self, room: int, *, alone: bool) -> Job | None:
        """Take the next job out of those that can start now.

        Args:
            room: how many processes may start
            alone: nothing else runs, so that a job may start that is larger than the room or wants no other
        """
        for job in self._waiting:
            done = all(self._ended_well(key) for key in self._needs[job.key])
            if done and (alone or (width(job) <= room and not job.alone)):
                self._waiting.remove(job)
                self._listen(Event(job, "started"))
                return job
        return None

    def end(self, job: Job, ending: Ending) -> None:
        """Take note of how a job ended; whatever needs one that failed is skipped."""
        self.endings[job.key] = ending
        self._listen(Event(job, "ended", ending))
        if ending.status == "done":
            return
        for other in [one for one in self._waiting if job.key in self._needs[one.key]]:
            if other in self._waiting:
                self._waiting.remove(other)
                root = (
                    ending.reason if ending.status == "skipped" else f"it needs '{job.title}', which failed"
                )
                self.end(other, Ending("skipped", root))

    def _ended_well(self, key: str) -> bool:
        return key in self.endings and self.endings[key].status == "done"


def width(job: Job) -> int:
    """Say how many processes a job takes."""
    return int(job.payload.get("processes", 1))


def room_beside(running: Iterable[Job], processes: int) -> int:
    """Say how many processes may start beside jobs that run.

    Args:
        running: those jobs
        processes: how many there may be in all

    >>> job = Job(key="a", kind="train", title="a", payload={"processes": 2})
    >>> room_beside([job], 8)
    6
    """
    taken = [processes if job.alone else width(job) for job in running]
    return processes - sum(taken)


def _chains(jobs: dict[str, Job], needs: dict[str, list[str]]) -> dict[str, float]:
    """Give the seconds of each job and of the longest chain of jobs after it."""
    after = dict.fromkeys(jobs, 0.0)
    chains = {}
    for key in reversed([*TopologicalSorter(needs).static_order()]):
        chains[key] = jobs[key].seconds + after[key]
        for one in needs[key]:
            after[one] = max(after[one], chains[key])
    return chains
