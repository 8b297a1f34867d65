"""How much memory a piece of work takes at its peak."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def growth_in_new_process(prepare: Callable[..., Callable[[], Any]], *arguments: Any) -> float | None:
    """Measure how much a fresh process grows at most during a piece of work.

    A process of its own, because memory that earlier work gave back to the allocator would hide the growth.
    There, glibc asks the system for every tensor and gives it back when it is freed. By default it keeps
    freed ones, and how well the holes are used again changes from run to run.

    Args:
        prepare: a function of a module, which makes everything ready, does the work once on a small scale so
            that code and scratch space are loaded, and gives the work
        arguments: what it is called with

    Returns:
        MiB; None where the system does not tell.
    """
    with _environment(MALLOC_MMAP_THRESHOLD_=str(2**16)):
        pool = multiprocessing.get_context("spawn").Pool(1)
    with pool:
        return pool.apply(_grown, (prepare, arguments))


@contextmanager
def _environment(**variables: str) -> Iterator[None]:
    """Set variables for processes that start within."""
    before = dict(os.environ)
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _grown(prepare: Callable[..., Callable[[], Any]], arguments: tuple[Any, ...]) -> float | None:
    work = prepare(*arguments)
    try:
        # Linux forgets the peak so far, which importing torch may have set.
        Path("/proc/self/clear_refs").write_text("5")
        before = _status("VmRSS")
        work()
        return _status("VmHWM") - before
    except (OSError, KeyError):
        return None


def _status(name: str) -> float:
    """Read a number of MiB that the kernel keeps about this process."""
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(lines[name].split()[0]) / 2**10
