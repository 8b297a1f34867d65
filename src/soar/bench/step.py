"""What a training step of every objective costs: time, passes and memory, side by side."""

from __future__ import annotations

import statistics
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from soar import models, randomness
from soar.bench.memory import growth_in_new_process
from soar.bench.networks import Network
from soar.objectives import OBJECTIVES, Objective
from soar.objectives.inner_passes import statistics as batch_norm_statistics
from soar.threat import Linf
from soar.training.layout import memory_layout

_CLEAR = 8.0

Subject = tuple[Objective, Tensor, Tensor]
"""An objective and the batch it is measured with."""


@dataclass(frozen=True)
class Cost:
    """What one training step of one objective takes.

    Args:
        objective: its name and options
        times: CPU seconds of every repeat
        forwards: batches through the network
        backwards: gradients that came back through the logits; the last pass of a gradient penalty comes
            back through every point that the penalty looked at
        mebibytes: how much the process grew in one step; None where it could not be measured
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

    def time_ratio(self, other: Cost) -> float:
        """Compare with another objective round by round, and give the median of the ratios.

        Steps of one round follow upon each other, so a busy machine slows both.

        >>> quiet_then_busy = Cost("a", (1.0, 3.0, 1.0), 1, 1, None)
        >>> quiet_then_busy.time_ratio(Cost("b", (2.0, 6.0, 2.0), 1, 1, None))
        0.5
        """
        return statistics.median(mine / its for mine, its in zip(self.times, other.times, strict=True))

    def memory_ratio(self, other: Cost) -> float | None:
        """Compare the memory with that of another objective, where both were measured."""
        if self.mebibytes is None or not other.mebibytes:
            return None
        return self.mebibytes / other.mebibytes


class Counted(nn.Module):
    """Counts the batches that go forwards through a model and the gradients that come back.

    Args:
        model: any classifier
        sharpness: a factor on its logits
    """

    def __init__(self, model: nn.Module, sharpness: float = 1.0) -> None:
        super().__init__()
        self.model, self.sharpness = model, sharpness
        self.forwards = self.backwards = 0

    def forward(self, x: Tensor) -> Tensor:
        """Count and pass on."""
        self.forwards += 1
        logits: Tensor = self.sharpness * self.model(x)
        if logits.requires_grad:
            logits.register_hook(self._count)
        return logits

    def _count(self, _: Tensor) -> None:
        self.backwards += 1


def build(objective: str, network: Network) -> Subject:
    """Make an objective around a fresh network, and a batch.

    The labels are what the network says, and it says so clearly: an objective that searches only around
    examples that are right, as MMA does, then has all its work to do.

    Args:
        objective: a registered name, with options as in "adversarial steps=10"
        network: what it is measured on
    """
    shape, options = network.image_shape, dict(network.options)
    fresh = models.build(network.model, seed=0, image_shape=shape, options=options)
    keys = randomness.key(0, torch.arange(network.batch_size), "bench")
    x = randomness.uniform(keys, shape)
    with batch_norm_statistics(fresh, "batch"), torch.no_grad():
        best = fresh(x).topk(2, dim=1)
    y = best.indices[:, 0]
    gap = (best.values[:, 0] - best.values[:, 1]).median()
    model = Counted(fresh, sharpness=_CLEAR / float(gap))
    layout = memory_layout(model, torch.device("cpu"), channels_last=True)
    model.to(memory_format=layout)  # type: ignore[call-overload]
    name, *settings = objective.split()
    chosen = dict(setting.split("=") for setting in settings)
    with warnings.catch_warnings():
        # Nothing is learned here, so what batch norm does to curvature is no concern.
        warnings.filterwarnings("ignore", message=".* on a model with BatchNorm")
        made = OBJECTIVES.build(name, chosen, model, Linf("8/255"), seed=0)
    return made, x.to(memory_format=layout), y


def measure(
    objectives: Sequence[str],
    network: Network,
    *,
    repeats: int = 5,
    threads: int = 1,
    memory: bool = True,
    done: Callable[[str], None] = lambda _: None,
) -> list[Cost]:
    """Measure steps of several objectives in turns, so that a busy machine slows all of them alike.

    Args:
        objectives: names, with options as in "adversarial steps=10"
        network: what they are measured on
        repeats: steps of each that count, after one that warms caches up
        threads: of the CPU
        memory: whether to measure memory too, each objective in a process of its own
        done: told of every step and every measurement of memory: `repeats` + 1 for each objective, and one
            more with memory
    """
    torch.set_num_threads(threads)
    made = {name: build(name, network) for name in objectives}
    times: dict[str, list[float]] = {name: [] for name in objectives}
    passes: dict[str, tuple[int, int]] = {}
    for repeat in range(repeats + 1):
        for name, subject in made.items():
            passes[name], spent = take_step(*subject, repeat)
            if repeat:
                times[name].append(spent)
            done(name)
    costs = []
    for name in objectives:
        grown = growth_in_new_process(_prepare, name, network, threads) if memory else None
        costs.append(Cost(name, tuple(times[name]), *passes[name], grown))
        if memory:
            done(name)
    return costs


def take_step(objective: Objective, x: Tensor, y: Tensor, step: int) -> tuple[tuple[int, int], float]:
    """Take one step without the optimizer.

    Args:
        objective: made by `build`
        x: images
        y: classes
        step: the training step, of which random numbers depend

    Returns:
        The passes forwards and backwards, and the CPU time.
    """
    model = objective.model
    assert isinstance(model, Counted)
    model.forwards = model.backwards = 0
    objective.zero_grad(set_to_none=True)
    began = time.process_time()
    objective(x, y, torch.arange(len(y)), step).loss.backward()
    return (model.forwards, model.backwards), time.process_time() - began


def _prepare(name: str, network: Network, threads: int) -> Callable[[], object]:
    torch.set_num_threads(threads)
    objective, x, y = build(name, network)
    take_step(objective, x[:2], y[:2], 0)
    return partial(take_step, objective, x, y, 1)
