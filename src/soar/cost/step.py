"""Benchmark a training step of several objectives: time, passes and memory, side by side."""

from __future__ import annotations

import ctypes
import multiprocessing
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from soar.cost import Counter
from soar.cost.workload import Workload, build
from soar.objectives import Objective

_M_MMAP_THRESHOLD = -3
"""of glibc's malloc.h"""


@dataclass(frozen=True)
class StepCost:
    """The cost of one training step of one objective.

    Args:
        objective: its spec, such as "adversarial:steps=10"
        times: CPU seconds of every repeat
        forwards: forward passes of the batch
        backwards: backward passes; see `Counter`
        mebibytes: growth of the process in one step; None where it was not measured
    """

    objective: str
    times: tuple[float, ...]
    forwards: int
    backwards: int
    mebibytes: float | None

    @property
    def seconds(self) -> float:
        """The median of the times."""
        return statistics.median(self.times)

    def time_ratio(self, other: StepCost) -> float:
        """Return the median over all rounds of the ratio to another objective.

        The steps of a round directly follow each other, so a busy machine slows down both.

        >>> quiet_then_busy = StepCost("a", (1.0, 3.0, 1.0), 1, 1, None)
        >>> quiet_then_busy.time_ratio(StepCost("b", (2.0, 6.0, 2.0), 1, 1, None))
        0.5
        """
        return statistics.median(mine / its for mine, its in zip(self.times, other.times, strict=True))

    def memory_ratio(self, other: StepCost) -> float | None:
        """Return the ratio of the memory to that of another objective, where both were measured."""
        if self.mebibytes is None or not other.mebibytes:
            return None
        return self.mebibytes / other.mebibytes


def measure_steps(
    objectives: Sequence[str],
    workload: Workload,
    *,
    repeats: int = 5,
    threads: int = 1,
    memory: bool = True,
    done: Callable[[str], None] = lambda _: None,
) -> list[StepCost]:
    """Measure steps of several objectives in turns, so that a busy machine slows down all of them alike.

    Args:
        objectives: specs, such as "adversarial:steps=10"
        workload: the network and the batch
        repeats: timed steps of each objective, after one in which passes are counted and caches warmed up
        threads: CPU threads
        memory: whether to measure memory too, each objective in a process of its own
        done: called with the objective after every step and every measurement of memory: `repeats` + 1 times
            for each objective, and once more with memory
    """
    torch.set_num_threads(threads)
    subjects = {spec: build(spec, workload) for spec in objectives}
    times: dict[str, list[float]] = {spec: [] for spec in objectives}
    counters = {spec: Counter(objective.model) for spec, (objective, _, _) in subjects.items()}
    for repeat in range(repeats + 1):
        for spec, subject in subjects.items():
            if repeat:
                times[spec].append(take_step(*subject, repeat))
            else:
                with counters[spec]:
                    take_step(*subject, repeat)
            done(spec)
    costs = []
    for spec, counter in counters.items():
        grown = memory_growth(_prepare, spec, workload, threads) if memory else None
        costs.append(StepCost(spec, tuple(times[spec]), counter.forwards, counter.backwards, grown))
        if memory:
            done(spec)
    return costs


def take_step(objective: Objective, x: Tensor, y: Tensor, step: int) -> float:
    """Take one training step without the optimizer, and return its CPU seconds.

    Args:
        objective: an objective of `build`
        x: images
        y: labels
        step: number of the step, which decides the random numbers
    """
    objective.zero_grad(set_to_none=True)
    began = time.process_time()
    objective(x, y, torch.arange(len(y), device="cpu"), step).loss.backward()
    return time.process_time() - began


def memory_growth(prepare: Callable[..., Callable[[], Any]], *arguments: Any) -> float | None:
    """Measure by how much a fresh process grows at most during a piece of work.

    A fresh process, because memory that earlier work returned to the allocator would hide the growth. There,
    glibc asks the system for every tensor and returns it when it is freed. By default it keeps freed memory,
    and how well the holes are filled again varies from run to run.

    Args:
        prepare: a function of a module, which prepares everything, runs the work once on a small scale so
            that code and scratch space are loaded, and returns the work
        arguments: its arguments

    Returns:
        MiB; None where the system does not report it.
    """
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_growth, (prepare, arguments))


def _prepare(spec: str, workload: Workload, threads: int) -> Callable[[], object]:
    torch.set_num_threads(threads)
    objective, x, y = build(spec, workload)
    take_step(objective, x[:2], y[:2], 0)
    return partial(take_step, objective, x, y, 1)


def _growth(prepare: Callable[..., Callable[[], Any]], arguments: tuple[Any, ...]) -> float | None:
    try:
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, 2**16)
        work = prepare(*arguments)
        # Linux resets the peak so far, which importing torch may have set.
        Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")
        before = _status("VmRSS")
        work()
        return _status("VmHWM") - before
    except (AttributeError, OSError, KeyError):
        return None


def _status(name: str) -> float:
    """Return an entry of the kernel's status of this process, in MiB."""
    lines = dict(
        line.split(":", 1) for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    )
    return int(lines[name].split()[0]) / 2**10
