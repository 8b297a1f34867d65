"""What a training costs: how often which work is done, and what that takes.

seconds = sum over kinds of work of  times x passes x seconds a pass

Passes and floating-point operations are counted and hold on every machine; seconds are measured on one, by
`soar.training.timing`, or follow from a rate that somebody assumes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import takewhile

from soar.errors import UserError
from soar.recipes.settings import TrainingSettings

STILL_RIGHT = 0.5
"""The part of an attack's work that is taken to be needed; images that are wrong or fooled early save it."""
_MOST_PROCESSES, _LEAST_IMAGES = 64, 16
"""smaller parts of a batch leave most hardware idle"""


@dataclass(frozen=True, kw_only=True)
class Work:
    """One kind of work that a training does again and again.

    Args:
        name: what it is
        times: how often it is done
        images: how many images it is done with, in all processes together
        forwards: how often each of them goes through the network, at most
        backwards: how often a gradient comes back from its logits, at most
        flop: floating-point operations each time, at most; a multiplication with an addition counts two
        seconds: each time, at most; None where nobody has measured or assumed it
        needed: the part of all this that is taken to be done
    """

    name: str
    times: int
    images: int
    forwards: int
    backwards: int
    flop: float
    seconds: float | None = None
    needed: float = 1.0

    @property
    def total_flop(self) -> float:
        """Operations of all times together, as far as they are needed."""
        return self.times * self.needed * self.flop

    @property
    def total_seconds(self) -> float | None:
        """Seconds of all times together, as far as they are needed."""
        return None if self.seconds is None else self.times * self.needed * self.seconds

    @property
    def pass_seconds(self) -> float | None:
        """Seconds of a pass of all images, forwards or backwards.

        >>> work = Work(name="update", times=1, images=8, forwards=2, backwards=2, flop=1e6, seconds=2.0)
        >>> work.pass_seconds
        0.5
        """
        return None if self.seconds is None else self.seconds / (self.forwards + self.backwards)


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What a whole training costs.

    Args:
        updates: the kinds of updates; there are two where the perturbation of weights begins on the way
        validation: the attack on held-out images; None without any
        updates_per_epoch: how many there are in an epoch
        parameters: of the network
        processes: how many share the work
        mebibytes: what the process, or the GPU, held at its peak; None where that is unknown
    """

    updates: tuple[Work, ...]
    validation: Work | None
    updates_per_epoch: int
    parameters: int
    processes: int = 1
    mebibytes: float | None = None

    @property
    def works(self) -> tuple[Work, ...]:
        """All kinds of work."""
        return self.updates if self.validation is None else (*self.updates, self.validation)

    @property
    def number(self) -> int:
        """How many updates are made."""
        return sum(work.times for work in self.updates)

    @property
    def epochs(self) -> float:
        """How often every image is seen."""
        return self.number / self.updates_per_epoch

    @property
    def flop(self) -> float:
        """Floating-point operations of the whole training."""
        return sum(work.total_flop for work in self.works)

    @property
    def seconds(self) -> float | None:
        """Seconds of the whole training, where they are known."""
        known = [work.total_seconds for work in self.works if work.total_seconds is not None]
        return sum(known) if len(known) == len(self.works) else None

    @property
    def validation_share(self) -> float:
        """The part of the time, or else of the operations, that validation takes."""
        if self.validation is None:
            return 0.0
        if self.seconds and self.validation.total_seconds is not None:
            return self.validation.total_seconds / self.seconds
        return self.validation.total_flop / self.flop

    @property
    def exchanged(self) -> float:
        """Bytes that each process sends in an update: gradients in float32, passed round a ring.

        >>> of_two = Cost(updates=(), validation=None, updates_per_epoch=1, parameters=1000, processes=2)
        >>> of_two.exchanged
        4000.0
        """
        return 4 * self.parameters * 2 * (self.processes - 1) / self.processes

    def at_rate(self, tflops: float) -> Cost:
        """Return the cost where every process does so many 10^12 operations a second.

        Raises:
            UserError: if the rate is not above 0
        """
        if not tflops > 0:
            raise UserError(f"--tflops: got {tflops:g}, expected a number above 0")
        rate = tflops * 1e12 * self.processes
        return self._with_seconds([work.flop / rate for work in self.works])

    def among(self, processes: int) -> Cost:
        """Return the cost at best, where more processes have hardware of the same kind each.

        The exchange of gradients takes no time here, and smaller parts of a batch are as quick an image as
        larger ones. Neither is quite so.
        """
        factor = self.processes / processes
        spent = [None if work.seconds is None else work.seconds * factor for work in self.works]
        return replace(self._with_seconds(spent), processes=processes)

    def _with_seconds(self, spent: list[float] | list[float | None]) -> Cost:
        works = [replace(work, seconds=seconds) for work, seconds in zip(self.works, spent, strict=True)]
        last = None if self.validation is None else works.pop()
        return replace(self, updates=tuple(works), validation=last)


def phases(settings: TrainingSettings, total: int, updates_per_epoch: int) -> list[tuple[int, int]]:
    """Return the first update and the number of updates of each part of a training that costs alike.

    >>> plain = TrainingSettings(epochs=4, batch_size=10, lr=0.1)
    >>> phases(plain, 40, 10)
    [(0, 40)]
    >>> from dataclasses import replace
    >>> phases(replace(plain, weight_perturbation=0.005, weight_perturbation_after=1.0), 40, 10)
    [(0, 10), (10, 30)]
    """
    begin = round(settings.weight_perturbation_after * updates_per_epoch)
    if not settings.weight_perturbation or not 0 < begin < total:
        return [(0, total)]
    return [(0, begin), (begin, total - begin)]


def validations(total: int, period: int) -> int:
    """Count the validations of a training: one after every period and one at the end.

    >>> validations(10, 4), validations(8, 4), validations(3, 4)
    (3, 2, 1)
    """
    return -(-total // period)


def divisions(batch_size: int, accumulate: int = 1) -> list[int]:
    """Name numbers of processes, each twice the one before, that a batch can be divided among.

    >>> divisions(512), divisions(96, accumulate=2), divisions(10)
    ([1, 2, 4, 8, 16, 32], [1, 2], [1])
    """
    parts = (2**n for n in range(_MOST_PROCESSES.bit_length()))
    fits = takewhile(lambda n: batch_size % (n * accumulate) == 0, parts)
    return [n for n in fits if n == 1 or batch_size >= n * accumulate * _LEAST_IMAGES]
