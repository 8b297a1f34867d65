"""What a measurement works on and what it returns: a job's network and images, and a number."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from torch import Tensor

from soar import recipes
from soar.evaluation.interval import average, wilson
from soar.evaluation.target import Target
from soar.experiments.cache import Cache, Log
from soar.experiments.experiment import Measurement
from soar.runs import Run, find
from soar.threat import Threat, threat

BATCH = 128


@dataclass(frozen=True)
class Found:
    """What was measured.

    Args:
        value: in the unit of the table
        low: lower end of the 95% interval, where there is one
        high: its upper end
        correct: which examples are correctly classified, where the value is an accuracy
        each: one number per example, where the value is their mean
        parts: more numbers of the same measurement, by name
    """

    value: float
    low: float | None = None
    high: float | None = None
    correct: Tensor | None = None
    each: Tensor | None = None
    parts: Mapping[str, Found] = field(default_factory=dict)


@dataclass(frozen=True)
class Task:
    """A job's network, images and options; what is expensive is loaded when it is first needed.

    Args:
        payload: of the job
        log: takes lines of progress
    """

    payload: Mapping[str, Any]
    log: Log = lambda _: None

    @property
    def options(self) -> dict[str, Any]:
        """The measurement's options."""
        return dict(self.payload["measurement"].get("options", {}))

    @property
    def seed(self) -> int:
        """Seed of attacks and random points."""
        return int(self.payload["seed"])

    @property
    def cache(self) -> Cache:
        """Where networks and results are."""
        return Cache(Path(self.payload["cache"]))

    @property
    def key(self) -> str:
        """The key the result is stored under."""
        measurement = Measurement(
            kind=self.payload["measurement"]["kind"],
            options=self.options,
            examples=self.payload["examples"],
        )
        return measurement.key(self.payload["network"], [*self.payload["sources"].values()], self.seed)

    @cached_property
    def run(self) -> Run:
        """The network's run; one with weights of a user's own has no folder."""
        given = self.payload.get("given")
        if given is not None:
            return Run(Path(given["weights"]), recipes.from_table(given["recipe"], "--weights"))
        return find(self.cache.network(self.payload["network"]))

    @property
    def threat(self) -> Threat:
        """The threat that the options name; without one, that of the network's recipe."""
        if "eps" not in self.options:
            return self.run.threat()
        return threat(self.options.get("norm", "linf"), self.options["eps"])

    @cached_property
    def target(self) -> Target:
        """The trained network, the first test images, and the threat."""
        root = self.payload.get("root")
        return Target.from_run(
            self.run,
            root=None if root is None else Path(root),
            split=self.options.get("split", "test"),
            examples=self.payload["examples"],
            threat=self.threat,
            device=self.payload.get("device", "cpu"),
            seed=self.seed,
            batch_size=BATCH,
            progress="plain",
        )

    def of_source(self) -> Task:
        """Return the task of finding, on this one's source, the points that are shown to its network."""
        (source,) = self.payload["sources"].values()
        measurement = {"kind": "points", "options": self.options}
        changed = {"network": source, "sources": {}, "measurement": measurement}
        return Task({key: value for key, value in self.payload.items() if key != "given"} | changed, self.log)


def share(correct: Tensor) -> Found:
    """Return an accuracy in percent with its interval.

    Args:
        correct: which examples are correctly classified

    >>> import torch
    >>> found = share(torch.tensor([True, True, False, False]))
    >>> found.value, round(found.low, 1), round(found.high, 1)
    (50.0, 15.0, 85.0)
    """
    count, total = int(correct.sum()), len(correct)
    low, high = wilson(count, total)
    return Found(100 * count / total, 100 * low, 100 * high, correct.cpu())


def mean(numbers: Tensor) -> Found:
    """Return the mean of one number per example, with the interval of the normal distribution.

    Args:
        numbers: one per example

    >>> import torch
    >>> found = mean(torch.tensor([1.0, 3.0]))
    >>> found.value, round(found.low, 2), round(found.high, 2)
    (2.0, 0.04, 3.96)
    """
    return Found(*average(numbers), each=numbers.detach().cpu())
