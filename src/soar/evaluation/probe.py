"""One model under diagnosis: its examples, and what attacks did to them, each attack run once."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from soar.attacks import Attack
from soar.attacks.attack import Planned
from soar.evaluation.assess import assess
from soar.evaluation.examples import Examples, Gathered, gather
from soar.evaluation.inspection import SpareOutputsWarning
from soar.model_state import placement, probing
from soar.prediction import as_input, predict
from soar.progress import Mode
from soar.threat import Threat


class Tempered(nn.Module):
    """A model whose logits are divided by a temperature.

    Args:
        model: any module that returns logits
        temperature: what its logits are divided by
    """

    def __init__(self, model: nn.Module, temperature: float) -> None:
        super().__init__()
        self.model, self.temperature = model, temperature

    def forward(self, x: Tensor) -> Tensor:
        """Return the divided logits."""
        logits: Tensor = self.model(x) / self.temperature
        return logits


@dataclass(kw_only=True)
class Probe:
    """A model, its examples and its threat; checks share the attacks that were run.

    Args:
        model: the model as the user gave it
        data: the examples, of any kind that `evaluate` takes
        threat: what the adversary may do
        seed: seed of all random numbers
        batch_size: how many examples are evaluated at once
        sources: other networks, by name, whose adversarial points are tried on this one
        progress: how to show progress
        journal: a file for what is found on the way
    """

    model: nn.Module
    data: Examples
    threat: Threat
    seed: int = 0
    batch_size: int = 128
    sources: Mapping[str, nn.Module] = field(default_factory=dict)
    progress: Mode = "quiet"
    journal: Path | None = None
    _known: dict[Any, Tensor] = field(default_factory=dict, init=False)

    @cached_property
    def examples(self) -> Gathered:
        """The examples in memory."""
        return gather(self.data)

    @property
    def images(self) -> Tensor:
        """The images as they were given: uint8, or float in [0, 1]."""
        return self.examples.images

    @property
    def index(self) -> Tensor:
        """The identity of each example."""
        return self.examples.index

    @cached_property
    def x(self) -> Tensor:
        """The images as the model takes them: float in [0, 1]."""
        return as_input(self.images, *placement(self.model))

    @property
    def labels(self) -> Tensor:
        """The true classes, where the model is."""
        return self.examples.labels.to(self.x.device)

    @cached_property
    def logits(self) -> Tensor:
        """What the model says about the clean images."""
        with probing(self.model):
            return predict(self.model, self.images, self.batch_size)

    @cached_property
    def correct(self) -> Tensor:
        """Which clean images are correctly classified, on the CPU."""
        return (self.logits.argmax(dim=1) == self.labels).cpu()

    def right(self, most: int | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Return images, classes and identities of the examples that are correctly classified.

        Args:
            most: so many of them at most, the first ones
        """
        rows = self.correct.nonzero()[:most, 0]
        here = rows.to(self.x.device)
        return self.x[here], self.labels[here], self.index[rows]

    def robust(
        self, attack: Attack[Any], *, threat: Threat | None = None, temperature: float = 1.0
    ) -> Tensor:
        """Return which examples stay correctly classified under an attack; each attack is run once.

        Args:
            attack: the recipe
            threat: another threat than the probe's
            temperature: what the logits are divided by while the attack looks at them

        Returns:
            One flag an example, on the CPU.
        """
        limits = threat or self.threat
        key = (repr(attack), str(limits), temperature)
        if key not in self._known:
            with warnings.catch_warnings():
                # Said once for all attacks, where the diagnosis begins.
                warnings.simplefilter("ignore", SpareOutputsWarning)
                found = assess(
                    self.model if temperature == 1 else Tempered(self.model, temperature),
                    self.examples,
                    limits,
                    [Planned(attack)],
                    seed=self.seed,
                    batch_size=self.batch_size,
                    data_name=f"temperature {temperature}",
                    progress=self.progress,
                    journal=self.journal,
                )
            self._known[key] = found.attacks[0].robust
        return self._known[key]
