"""Do jobs on many machines, as tasks of Ray.

Every machine needs this package and its extra (`pip install 'soar-robust[cluster]'`), the data, and the cache
folder under the same path, on a disk that all of them share: networks and results go from one job to the next
through it.
"""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from soar.errors import UserError
from soar.experiments.jobs import Ending, Event, Job, JobQueue
from soar.experiments.local import terminable

if TYPE_CHECKING:
    from collections.abc import Iterator

_GRACE = 60.0
_ANSWER = 10.0


class Cluster:
    """Each job as a task of Ray, as many at once as the cluster has CPUs.

    A task whose machine or process is lost is started again by Ray and resumes from its last checkpoint. The
    device "cuda" asks for one GPU for each process of a job.

    Args:
        address: of a running cluster, such as "auto" or "10.0.0.1:6379"; None for what the variable
            RAY_ADDRESS says, or a Ray of this machine alone
    """

    def __init__(self, address: str | None = None) -> None:
        self.address = address

    def run(self, jobs: Sequence[Job], listen: Callable[[Event], None]) -> dict[str, Ending]:
        """Do all jobs; one that fails does not stop the others.

        Args:
            jobs: what to do; what they need is among them or done already
            listen: receives what starts and ends

        Raises:
            UserError: if there is no Ray or no such cluster
            KeyboardInterrupt: when a signal asked to stop; tasks have saved what they can resume from
        """
        queue = JobQueue(jobs, listen)
        with _connected(self.address) as ray, terminable():
            running: dict[Any, tuple[Job, float]] = {}
            try:
                while running or not queue.is_empty:
                    _fill(ray, queue, running)
                    if not running:
                        continue
                    for task in ray.wait([*running], num_returns=1)[0]:
                        job, began = running.pop(task)
                        reason, seconds = _reason(ray, task), round(time.monotonic() - began, 1)
                        queue.end(job, Ending("failed" if reason else "done", reason, seconds))
            except BaseException:
                _stop(ray, [*running])
                raise
        return queue.endings


def _fill(ray: Any, queue: JobQueue, running: dict[Any, tuple[Job, float]]) -> None:
    """Hand out what there are CPUs for; Ray finds the machine."""
    while True:
        all_cpus = int(ray.cluster_resources().get("CPU", 1))
        job = queue.start([one for one, _ in running.values()], all_cpus)
        if job is None:
            return
        gpus = job.processes if str(job.payload.get("device", "")).startswith("cuda") else 0
        there = int(ray.cluster_resources().get("GPU", 0))
        if gpus > there:
            # Ray would wait for a machine that has them.
            queue.end(job, Ending("failed", f"it needs {gpus} GPUs, the cluster has {there} (flag --device)"))
            continue
        largest = max(int(node["Resources"].get("CPU", 1)) for node in ray.nodes() if node["Alive"])
        needed = {"num_cpus": largest if job.alone else min(job.processes, largest), "num_gpus": gpus}
        task = ray.remote(_perform).options(name=job.title, **needed).remote(job)
        running[task] = (job, time.monotonic())


def _perform(job: Job) -> str:
    """Do a job on the machine that Ray chose.

    Returns:
        Why it was not done, in one line; nothing when it was.
    """
    from soar.experiments.worker import perform

    cache = Path(job.payload["cache"])
    if not cache.is_dir():
        return f"{cache} is not on {os.uname().nodename}; all machines have to share the cache folder"
    try:
        perform(job, print)
    except UserError as error:
        return " ".join(str(error).split())
    except Exception as error:
        return " ".join(f"{type(error).__name__}: {error}".split())
    return ""


def _reason(ray: Any, task: Any) -> str:
    """Return why a task failed; nothing when it did not."""
    try:
        return str(ray.get(task))
    except ray.exceptions.RayError as error:
        lines = str(error).strip().splitlines() or [""]
        return f"Ray: {type(error).__name__}: {lines[0]}"


def _stop(ray: Any, tasks: Sequence[Any]) -> None:
    """Ask tasks to save and end, and wait a while for them; a second interrupt waits no longer."""
    for task in tasks:
        ray.cancel(task)
    if tasks:
        with suppress(KeyboardInterrupt):
            ray.wait([*tasks], num_returns=len(tasks), timeout=_GRACE)


def _require_answer(address: str | None) -> None:
    """Check that something answers at an address; Ray itself would try for minutes.

    Args:
        address: HOST:PORT, with or without ray:// before it; what has no port is left to Ray
    """
    host, _, port = (address or "").rpartition("://")[2].rpartition(":")
    if not (host and port.isdigit()):
        return
    try:
        socket.create_connection((host, int(port)), timeout=_ANSWER).close()
    except (OSError, OverflowError) as error:
        raise UserError(f"no Ray cluster at '{address}' ({error}; flag --cluster)") from None


@contextmanager
def _connected(address: str | None) -> Iterator[Any]:
    """Join a cluster and leave it again; one that the program has joined already is used as it is."""
    try:
        import ray
    except ImportError:
        raise UserError("a cluster needs the package ray: pip install 'soar-robust[cluster]'") from None
    if ray.is_initialized():
        yield ray
        return
    _require_answer(address)
    # A Ray that is started here reports nothing to anybody, unless the user wants it to.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, ValueError, RuntimeError) as error:
        reason = (str(error).strip().splitlines() or [""])[0]
        raise UserError(f"no Ray cluster at '{address or 'RAY_ADDRESS'}' ({reason})") from None
    try:
        yield ray
    finally:
        ray.shutdown()
