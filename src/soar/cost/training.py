"""What a whole training costs: how often each phase of it is run, and what that takes.

seconds = sum over phases of  times x passes x seconds per pass

Passes and floating-point operations are counted on a few images and hold on every machine. Seconds are those
of a few real updates and a short attack here, or follow from an assumed rate.
"""

from __future__ import annotations

import math
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from soar.cost import Counter, run_unfooled
from soar.cost.workload import sharpen
from soar.data import Batch
from soar.model_state import probing
from soar.prediction import predict
from soar.training.trainer import Trainer, batches_of
from soar.training.validation import attack_of

STILL_ROBUST = 0.5
"""The assumed share of an attack's passes; images that are misclassified or fooled early save the others."""
_FEW_IMAGES, _FEW_STEPS = 2, 3
_UPDATE_IMAGES = 8
"""so many that the share of a batch which an objective may treat apart comes out as a share"""
_WARM_UP = 2
_LEAST, _MOST, _SECONDS = 3, 30, 6.0
"""at least and at most so many updates are timed, otherwise for so many seconds"""

Clock = Callable[[], float]


@dataclass(frozen=True, kw_only=True)
class PhaseCost:
    """The cost of one phase that a training runs again and again, an update or a validation.

    Args:
        times: how often it is run
        images: the images of one run, in all processes together
        forwards: forward passes of each image, at most
        backwards: backward passes of each image, at most
        flop: floating-point operations of one run, at most; a multiplication with an addition counts two
        seconds: seconds of one run, at most; None where they were neither measured nor assumed
        needed: the share of all this that is assumed to be needed
    """

    times: int
    images: int
    forwards: int
    backwards: int
    flop: float
    seconds: float | None = None
    needed: float = 1.0

    @property
    def total_flop(self) -> float:
        """Operations of all runs together, as far as they are needed."""
        return self.times * self.needed * self.flop

    @property
    def total_seconds(self) -> float | None:
        """Seconds of all runs together, as far as they are needed."""
        return None if self.seconds is None else self.times * self.needed * self.seconds


@dataclass(frozen=True)
class TrainingCost:
    """The cost of a whole training.

    Args:
        updates: the kinds of updates; there are two where weight perturbation begins later than training
        validation: the attack on held-out images; None without any
        updates_per_epoch: updates in an epoch
        parameters: parameters of the network
        processes: processes that share the work
        mebibytes: peak memory of the process or the GPU; None where it is unknown
    """

    updates: tuple[PhaseCost, ...]
    validation: PhaseCost | None
    updates_per_epoch: int
    parameters: int
    processes: int = 1
    mebibytes: float | None = None

    @property
    def phases(self) -> tuple[PhaseCost, ...]:
        """All phases."""
        return self.updates if self.validation is None else (*self.updates, self.validation)

    @property
    def number(self) -> int:
        """The number of updates."""
        return sum(phase.times for phase in self.updates)

    @property
    def epochs(self) -> float:
        """The number of epochs."""
        return self.number / self.updates_per_epoch

    @property
    def flop(self) -> float:
        """Floating-point operations of the whole training."""
        return sum(phase.total_flop for phase in self.phases)

    @property
    def seconds(self) -> float | None:
        """Seconds of the whole training, where they are known."""
        known = [phase.total_seconds for phase in self.phases if phase.total_seconds is not None]
        return sum(known) if len(known) == len(self.phases) else None

    @property
    def validation_share(self) -> float:
        """The share of validation in the time or, where that is unknown, in the operations."""
        if self.validation is None:
            return 0.0
        if self.seconds and self.validation.total_seconds is not None:
            return self.validation.total_seconds / self.seconds
        return self.validation.total_flop / self.flop

    @property
    def exchanged(self) -> float:
        """Bytes that each process sends per update: gradients in float32, in a ring all-reduce.

        >>> TrainingCost((), None, updates_per_epoch=1, parameters=1000, processes=2).exchanged
        4000.0
        """
        return 4 * self.parameters * 2 * (self.processes - 1) / self.processes

    def within(self, seconds: float, period: int, most: int | None = None) -> TrainingCost:
        """Return the cost of as many updates as there is time for, each kind with its share of the time.

        The validations in between take part of the time; the last one comes on top.

        Args:
            seconds: the time for updates, whose own seconds must be known
            period: updates between two validations
            most: the largest number of updates
        """
        validation, left = self.validation, math.inf if most is None else most
        pause = 0.0 if validation is None else (validation.seconds or 0.0) * validation.needed / period
        updates = []
        for phase in self.updates:
            each = (phase.seconds or 0.0) + pause
            times = min(left, max(1, round(seconds * phase.times / self.number / each)))
            updates.append(replace(phase, times=int(times)))
            left -= times
        if validation is not None:
            number = sum(phase.times for phase in updates)
            validation = replace(validation, times=_validations(number, period))
        return replace(self, updates=tuple(updates), validation=validation)

    def at_rate(self, tflops: float) -> TrainingCost:
        """Return the cost where every process does `tflops` x 10^12 operations per second."""

        def timed(phase: PhaseCost) -> PhaseCost:
            return replace(phase, seconds=phase.flop / (tflops * 1e12 * self.processes))

        updates = tuple(map(timed, self.updates))
        return replace(self, updates=updates, validation=self.validation and timed(self.validation))


def count_training(trainer: Trainer) -> TrainingCost:
    """Count the passes and operations of a training run on a few images; nothing is timed or written.

    A run of `minutes` is counted as one of `epochs`; `TrainingCost.within` tells what time allows.

    Args:
        trainer: a trainer made for this purpose, which is not fit for training afterward
    """
    with closing(batches_of(trainer)) as batches:
        few = Batch(*(part[:_UPDATE_IMAGES] for part in next(batches)))
    return TrainingCost(
        updates=tuple(_count_updates(trainer, few, first, times) for first, times in _phases(trainer)),
        validation=_count_validation(trainer, trainer.validation.steps) if len(trainer.held_out) else None,
        updates_per_epoch=trainer.steps_per_epoch,
        parameters=sum(x.numel() for x in trainer.objective.model.parameters()),
        processes=trainer.world.size,
    )


def measure_training(trainer: Trainer, clock: Clock = time.perf_counter) -> TrainingCost:
    """Count the work of a training run, and time a few updates and a short attack of it.

    In several processes all of them call this; updates then include the exchange of gradients.

    Args:
        trainer: a trainer made for this purpose, which is not fit for training afterward
        clock: returns seconds, from any origin
    """

    def synchronized() -> float:
        if trainer.device.type == "cuda":
            torch.cuda.synchronize(trainer.device)
        return clock()

    counted = count_training(trainer)
    with trainer.updates.shared_among(trainer.world):
        spent = [_time_updates(trainer, first, synchronized) for first, _ in _phases(trainer)]
    updates = [replace(phase, seconds=each) for phase, each in zip(counted.updates, spent, strict=True)]
    last = counted.validation
    if last is not None:
        last = replace(last, seconds=_time_validation(trainer, last, synchronized))
    return replace(counted, updates=tuple(updates), validation=last, mebibytes=_peak_memory(trainer.device))


def _phases(trainer: Trainer) -> list[tuple[int, int]]:
    """Return the first update and the number of updates of each part whose updates cost alike."""
    settings, total = trainer.training, _steps(trainer)
    begin = round(settings.weight_perturbation_after * trainer.steps_per_epoch)
    if not settings.weight_perturbation or not 0 < begin < total:
        return [(0, total)]
    return [(0, begin), (begin, total - begin)]


def _steps(trainer: Trainer) -> int:
    """Return the number of updates, in a run of `minutes` that of its schedules."""
    whole, most = trainer.length.schedule_steps, trainer.training.max_steps
    return whole if most is None or trainer.training.minutes else min(whole, most)


def _validations(steps: int, period: int) -> int:
    """Return the number of validations: one after every period, and one at the end."""
    return -(-steps // period)


def _count_updates(trainer: Trainer, few: Batch, step: int, times: int) -> PhaseCost:
    counter = Counter(trainer.objective.model)
    with trainer.updates.seeded(trainer.seed, trainer.world.rank):
        _update(trainer, few, step, counter)
    size = trainer.training.batch_size
    return PhaseCost(
        times=times,
        images=size,
        forwards=counter.forwards,
        backwards=counter.backwards,
        flop=counter.flop * size / len(few.y),
    )


def _count_validation(trainer: Trainer, steps: int) -> PhaseCost:
    """Count a validation whose attack has so many steps."""
    images, examples = trainer.held_out.stored[:_FEW_IMAGES], len(trainer.held_out)
    with Counter(trainer.updates.judged_model) as counter:
        forwards, backwards = _validate(trainer, images, steps)
    period = trainer.validation.every * trainer.steps_per_epoch
    return PhaseCost(
        times=_validations(_steps(trainer), period),
        images=examples,
        forwards=forwards,
        backwards=backwards,
        flop=counter.flop * examples / len(images),
        needed=1.0 if trainer.threat is None else STILL_ROBUST,
    )


def _update(trainer: Trainer, batch: Batch, step: int, within: AbstractContextManager[object]) -> None:
    """Do all the work of an update within a context, with a learning rate of 0, so that the weights stay.

    Only Muon still rescales its filters. The labels are the predictions of the network, made clear; see
    `sharpen`.
    """
    updates = trainer.updates
    trainer.objective.train()
    x = batch.on(updates.device, updates.dtype, updates.layout).x
    labels, handle = sharpen(trainer.objective.model, x)
    with handle, within:
        updates.prepare(step)
        for group in updates.optimizer.param_groups:
            group["lr"] = 0.0
        figures = updates.backward(batch._replace(y=labels.to(batch.y.device)), step)
        updates.apply(step, float(figures["grad_norm"]))


def _validate(trainer: Trainer, images: Tensor, steps: int) -> tuple[int, int]:
    """Validate on images with so many steps; return the forward and backward passes of an image."""
    model, size = trainer.updates.judged_model, trainer.validation.batch_size
    if trainer.threat is None:
        with probing(model):
            predict(model, images, size)
        return 1, 0
    attack = replace(attack_of(trainer.validation), steps=steps)
    return run_unfooled(model, attack, trainer.threat, images, batch_size=size)


def _time_updates(trainer: Trainer, step: int, clock: Clock) -> float:
    """Return the median time of several updates, each that of the slowest process."""
    spent: list[float] = []
    wanted = _WARM_UP
    seeded = trainer.updates.seeded(trainer.seed, trainer.world.rank)
    with seeded, closing(batches_of(trainer)) as batches:
        while len(spent) < wanted:
            parts: list[float] = []
            with _timed(clock, parts):
                batch = next(batches)
            _update(trainer, batch, step, _timed(clock, parts))
            spent.append(max(trainer.world.gather(sum(parts))))
            if len(spent) == _WARM_UP:
                wanted += min(_MOST, max(_LEAST, int(_SECONDS / spent[-1])))
    return statistics.median(spent[_WARM_UP:])


def _time_validation(trainer: Trainer, whole: PhaseCost, clock: Clock) -> float:
    """Time a short attack on one batch, and assume the same rate for the whole validation."""
    images = trainer.held_out.stored[trainer.world.shard(whole.images)][: trainer.validation.batch_size]
    steps = min(_FEW_STEPS, trainer.validation.steps)
    short = _count_validation(trainer, steps)
    spent: list[float] = []
    for _ in range(2):
        with _timed(clock, spent):
            _validate(trainer, images, steps)
    seconds = min(spent) * whole.flop / short.flop * whole.images / len(images) / trainer.world.size
    slowest: float = max(trainer.world.gather(seconds))
    return slowest


@contextmanager
def _timed(clock: Clock, spent: list[float]) -> Iterator[None]:
    """Append the seconds inside the context to a list."""
    began = clock()
    yield
    spent.append(clock() - began)


def _peak_memory(device: torch.device) -> float | None:
    """Return the peak memory of the GPU, or else of this process, in MiB."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**20
    try:
        import resource
    except ImportError:  # Windows
        return None
    unit = 1 if sys.platform == "darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20
