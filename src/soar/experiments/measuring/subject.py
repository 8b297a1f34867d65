"""What a measurement works on: a trained network, test images, and the numbers of the job."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from soar import recipes
from soar.data import Dataset, Split
from soar.evaluation.interval import average, wilson
from soar.model_state import placement
from soar.prediction import as_input
from soar.experiments.measuring.measurement import Measurement
from soar.experiments.cache import Cache
from soar.runs import Run, find
from soar.threat import Threat, threat

BATCH = 128


@dataclass(frozen=True)
class Found:
    """What was measured.

    Args:
        value: in the unit of the table
        low: lower end of the 95 % interval, where there is one
        high: its upper end
        right: which examples are classified right, where the value is an accuracy
        forward: predictions an example
        backward: gradients an example
        details: plain values worth keeping
        each: one number an example, where the value is their mean
    """

    value: float
    low: float | None = None
    high: float | None = None
    right: Tensor | None = None
    forward: float = 0.0
    backward: float = 0.0
    details: Mapping[str, Any] = field(default_factory=dict)
    each: Tensor | None = None


@dataclass(frozen=True)
class Subject:
    """A job's network, images and numbers; what is expensive is loaded when it is asked for.

    Args:
        payload: of the job
        say: takes lines of progress
    """

    payload: Mapping[str, Any]
    say: Callable[[str], None]

    @property
    def options(self) -> dict[str, Any]:
        """The measurement's options."""
        return dict(self.payload["measurement"].get("options", {}))

    @property
    def seed(self) -> int:
        """Seed of attacks and random points."""
        return int(self.payload["seed"])

    @property
    def threat(self) -> Threat:
        """What the adversary may do here, whatever the network was trained against."""
        return threat(self.options.get("norm", "linf"), self.options["eps"])

    @property
    def cache(self) -> Cache:
        """Where networks and results are."""
        return Cache(Path(self.payload["cache"]))

    @property
    def key(self) -> str:
        """What the result is stored under."""
        kind = self.payload["measurement"]["kind"]
        measurement = Measurement(kind, self.options, tuple(self.payload["sources"]))
        sources = list(self.payload["sources"].values())
        return measurement.key(self.payload["network"], sources, self.payload["examples"], self.seed)

    @cached_property
    def run(self) -> Run:
        """The network's run; one with weights of a user's own has no folder."""
        given = self.payload.get("given")
        if given is not None:
            return Run(Path(given["weights"]), recipes.from_table(given["recipe"], "--weights"))
        return find(self.cache.network(self.payload["network"]))

    @cached_property
    def data(self) -> Dataset:
        """The data that the network was trained on."""
        root = self.payload.get("root")
        return self.run.data(None if root is None else Path(root))

    @cached_property
    def model(self) -> nn.Module:
        """The trained network."""
        return self.run.trained_model(self.data).to(self.payload.get("device", "cpu"))

    @cached_property
    def split(self) -> Split:
        """The first test images."""
        return self.data.test.first(self.payload["examples"])

    def inputs(self) -> tuple[Tensor, Tensor, Tensor]:
        """Give images as the model takes them, labels and identities, on its device."""
        device, dtype = placement(self.model)
        images = as_input(self.split.images, device, dtype)
        return images, self.split.labels.to(device), self.split.indices.to(device)


def share(right: Tensor, *, forward: float = 1.0, backward: float = 0.0, **details: Any) -> Found:
    """Give an accuracy in percent with its interval.

    Args:
        right: which examples are classified right
        forward: predictions an example
        backward: gradients an example
        details: plain values worth keeping

    >>> import torch
    >>> found = share(torch.tensor([True, True, False, False]))
    >>> found.value, round(found.low, 1), round(found.high, 1)
    (50.0, 15.0, 85.0)
    """
    count, total = int(right.sum()), len(right)
    low, high = wilson(count, total)
    return Found(100 * count / total, 100 * low, 100 * high, right.cpu(), forward, backward, details)


def mean(numbers: Tensor, *, forward: float, backward: float, **details: Any) -> Found:
    """Give the mean of one number an example, with the interval that the normal distribution gives it.

    Args:
        numbers: one an example
        forward: predictions an example
        backward: gradients an example
        details: plain values worth keeping

    >>> import torch
    >>> found = mean(torch.tensor([1.0, 3.0]), forward=1, backward=0)
    >>> found.value, round(found.low, 2), round(found.high, 2)
    (2.0, 0.04, 3.96)
    """
    return Found(*average(numbers), None, forward, backward, details, numbers.detach().cpu())
