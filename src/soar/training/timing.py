"""Time the work of a training on the machine at hand, by a few real updates and a short attack."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import chain, repeat
from typing import TYPE_CHECKING

import torch

from soar.training import generators
from soar.training.cost import Cost, Work, phases
from soar.training.counting import batches, count, count_validation, look, sure, update

if TYPE_CHECKING:
    from soar.training.trainer import Trainer

_WARM_UP = 2
_LEAST, _MOST, _SECONDS = 3, 30, 6.0
"""so many updates are timed at least and at most, otherwise for so long"""
_FEW_STEPS = 3


Clock = Callable[[], float]


def measure(trainer: Trainer, clock: Clock = time.perf_counter) -> Cost:
    """Count the work of a training, and time a few updates and a short attack of it.

    In several processes all of them call this; updates then include the exchange of gradients.

    Args:
        trainer: made for this purpose; it is not fit for training afterwards
        clock: seconds, from any origin
    """
    counted = count(trainer)
    parts = phases(trainer.training, trainer.total_steps, trainer.steps_per_epoch)
    trainer.updates.share_among(trainer.world)
    try:
        spent = [_time_updates(trainer, first, clock) for first, _ in parts]
    finally:
        trainer.updates.work_alone()
    updates = [replace(work, seconds=each) for work, each in zip(counted.updates, spent, strict=True)]
    looked = None if counted.validation is None else _time_validation(trainer, counted.validation, clock)
    return replace(counted, updates=tuple(updates), validation=looked, mebibytes=_peak(trainer.device))


def _time_updates(trainer: Trainer, step: int, clock: Clock) -> float:
    """Return the median of several updates, each as long as in the slowest process."""
    spent: list[float] = []
    wanted = _WARM_UP
    epochs = chain.from_iterable(batches(trainer) for _ in repeat(None))
    with generators.seeded(trainer.seed, trainer.world.rank, trainer.device):
        while len(spent) < wanted:
            began = clock()
            batch = next(epochs)
            waited = clock() - began
            with sure(trainer, batch) as (labeled, _):
                worked = _seconds(trainer.device, clock, partial(update, trainer, labeled, step))
            spent.append(max(trainer.world.gather(waited + worked)))
            if len(spent) == _WARM_UP:
                wanted += min(_MOST, max(_LEAST, int(_SECONDS / spent[-1])))
    return statistics.median(spent[_WARM_UP:])


def _time_validation(trainer: Trainer, whole: Work, clock: Clock) -> Work:
    """Time a short attack on one batch, and take the whole to go at the same rate."""
    images = trainer.held_out.images[trainer.world.shard(whole.images)][: trainer.validation.batch_size]
    steps = min(_FEW_STEPS, trainer.validation.steps)
    short = count_validation(trainer, steps)
    spent = min(_seconds(trainer.device, clock, partial(look, trainer, images, steps)) for _ in range(2))
    seconds = spent * whole.flop / short.flop * whole.images / len(images) / trainer.world.size
    return replace(whole, seconds=max(trainer.world.gather(seconds)))


def _seconds(device: torch.device, clock: Clock, work: Callable[[], object]) -> float:
    """Time a piece of work; a GPU goes on by itself, so wait for it before and after."""
    _wait_for(device)
    began = clock()
    work()
    _wait_for(device)
    return clock() - began


def _wait_for(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _peak(device: torch.device) -> float | None:
    """Return the MiB that the GPU, or else this process, has held at its peak."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**20
    try:
        import resource
    except ImportError:  # Windows
        return None
    unit = 1 if sys.platform == "darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20
