"""What a training step of every objective costs: time, passes and memory, side by side."""

from __future__ import annotations

import multiprocessing
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from soar import models, randomness
from soar.objectives import OBJECTIVES, Objective
from soar.threat import Linf
from soar.training.layout import memory_layout


@dataclass(frozen=True, kw_only=True)
class Setting:
    """The network and the batch that all objectives are measured on."""

    model: str = "resnet10"
    options: tuple[tuple[str, Any], ...] = ()
    image_shape: tuple[int, int, int] = (3, 32, 32)
    batch_size: int = 32
    repeats: int = 5
    threads: int = 1

    def build(self, objective: str) -> tuple[Objective, Tensor, Tensor]:
        """Make an objective around a fresh network, and a batch.

        Args:
            objective: a registered name, with options as in "adversarial steps=10"
        """
        torch.set_num_threads(self.threads)
        model = Counted(
            models.build(self.model, seed=0, image_shape=self.image_shape, options=dict(self.options))
        )
        keys = randomness.key(0, torch.arange(self.batch_size), "bench")
        x, y = randomness.uniform(keys, self.image_shape), randomness.integers(keys, 10)
        layout = memory_layout(model, torch.device("cpu"), channels_last=True)
        model.to(memory_format=layout)  # type: ignore[call-overload]
        name, *settings = objective.split()
        chosen = dict(setting.split("=") for setting in settings)
        made = OBJECTIVES.build(name, chosen, model, Linf("8/255"), seed=0)
        return made, x.to(memory_format=layout), y


class Counted(nn.Module):
    """Counts the batches that go forwards through a model and the gradients that come back."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self.forwards = self.backwards = 0

    def forward(self, x: Tensor) -> Tensor:
        """Count and pass on."""
        self.forwards += 1
        logits: Tensor = self.model(x)
        if logits.requires_grad:
            logits.register_hook(self._count)
        return logits

    def _count(self, _: Tensor) -> None:
        self.backwards += 1


@dataclass(frozen=True)
class Cost:
    """What one training step of one objective takes.

    Args:
        objective: its name and options
        seconds: CPU time, the median over the repeats
        forwards: batches through the network
        backwards: gradients that came back through the logits; the last pass of a gradient penalty comes
            back through every point that the penalty looked at
        mebibytes: how much the process grew in one step; None where it could not be measured
    """

    objective: str
    seconds: float
    forwards: int
    backwards: int
    mebibytes: float | None


def measure(objectives: Sequence[str], setting: Setting, *, memory: bool = True) -> list[Cost]:
    """Measure steps of several objectives in turns, so that a busy machine slows all of them alike.

    Args:
        objectives: names, with options as in "adversarial steps=10"
        setting: the network and the batch
        memory: whether to measure memory too, each objective in a process of its own
    """
    made = {name: setting.build(name) for name in objectives}
    seconds: dict[str, list[float]] = {name: [] for name in objectives}
    passes: dict[str, tuple[int, int]] = {}
    for repeat in range(setting.repeats + 1):
        for name, (objective, x, y) in made.items():
            passes[name], spent = _step(objective, x, y, repeat)
            if repeat:  # the first step warms caches up
                seconds[name].append(spent)
    return [
        Cost(
            name, statistics.median(seconds[name]), *passes[name], _growth(name, setting) if memory else None
        )
        for name in objectives
    ]


def _step(objective: Objective, x: Tensor, y: Tensor, step: int) -> tuple[tuple[int, int], float]:
    """Take one step without the optimizer; give its passes and its CPU time."""
    model = objective.model
    assert isinstance(model, Counted)
    model.forwards = model.backwards = 0
    objective.zero_grad(set_to_none=True)
    began = time.process_time()
    objective(x, y, step=step).loss.backward()
    return (model.forwards, model.backwards), time.process_time() - began


def _growth(name: str, setting: Setting) -> float | None:
    """Measure how much a fresh process grows in its first step."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_grown, (name, setting))


def _grown(name: str, setting: Setting) -> float | None:
    objective, x, y = setting.build(name)
    # Kernels load their code and scratch space with the first image; a batch of one does not count.
    _step(objective, x[:1], y[:1], 0)
    try:
        # Linux forgets the peak so far, which importing torch may have set.
        Path("/proc/self/clear_refs").write_text("5")
        before = _status("VmRSS")
        _step(objective, x, y, 1)
        return _status("VmHWM") - before
    except (OSError, KeyError):
        return None


def _status(name: str) -> float:
    """Read a number of MiB that the kernel keeps about this process."""
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(lines[name].split()[0]) / 2**10
