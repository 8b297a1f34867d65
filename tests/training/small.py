"""A problem so small that a training takes a fraction of a second: two classes, images of 1 x 6 x 6."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from soar.data import Augmentation, Dataset, Split
from soar.objectives import Objective, Output
from soar.recipes.settings import GuardSettings, TrainingSettings, ValidationSettings
from soar.threat import Linf
from soar.training.trainer import Trainer
from soar.training.validation import Scores

WALL_CLOCK_FIELDS = ("seconds", "cpu_seconds", "images_per_second")
"""the only fields in which a resumed run differs from an uninterrupted one"""


class Plain(Objective):
    """Cross-entropy, with a metric."""

    def compute(self, x: Tensor, y: Tensor, index: Tensor, step: int) -> Output:
        logits = self.model(x)
        return Output(F.cross_entropy(logits, y), logits.detach(), {"size": logits.detach().norm()})


def split(n: int, *, first: int = 0) -> Split:
    """Bright images are of class 1, with some noise."""
    generator = torch.Generator().manual_seed(first)
    labels = torch.randint(2, (n,), generator=generator)
    noise = torch.randint(140, (n, 1, 6, 6), generator=generator)
    images = (noise + 80 * labels.reshape(-1, 1, 1, 1)).to(torch.uint8)
    return Split(images, labels, torch.arange(first, first + n))


def dataset(train: int = 48, validation: int = 20) -> Dataset:
    parts = split(train), split(validation, first=1000), split(8, first=2000)
    return Dataset("small", ("dark", "bright"), (1, 6, 6), *parts)


def network(*, seed: int = 0, dtype: torch.dtype = torch.float32) -> nn.Module:
    """No BatchNorm, so that the parts of a batch do not influence each other."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        layers = nn.Conv2d(1, 3, 3), nn.Softplus(), nn.Flatten(), nn.Linear(48, 2)
        return nn.Sequential(*layers).to(dtype)


def deep_network(*, dtype: torch.dtype = torch.float32) -> nn.Sequential:
    """A second convolution, for Muon."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        layers = nn.Conv2d(1, 3, 3), nn.Softplus(), nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(16, 2)
        return nn.Sequential(*layers).to(dtype)


def settings(**changes: Any) -> TrainingSettings:
    return TrainingSettings(**({"epochs": 3, "batch_size": 8, "lr": 0.1, "num_workers": 0} | changes))


def trainer(
    run: Path,
    *,
    objective: Objective | None = None,
    data: Dataset | None = None,
    validation: ValidationSettings | None = None,
    guards: GuardSettings | None = None,
    resume: bool = False,
    sinks: Any = (),
    progress: Any = "quiet",
    seed: int = 0,
    device: str = "cpu",
    **changes: Any,
) -> Trainer:
    """Make a trainer; further keywords change its training settings."""
    return Trainer(
        objective or Plain(network(), Linf("8/255")),
        data or dataset(),
        settings(**changes),
        validation or ValidationSettings(steps=2),
        guards or GuardSettings(overfitting="off"),
        run=run,
        augmentation=Augmentation(flip=True),
        seed=seed,
        device=device,
        sinks=sinks,
        progress=progress,
        resume=resume,
    )


def weights(trained: Trainer) -> dict[str, Tensor]:
    found = trained.objective.model.state_dict()
    return {name: x.clone(memory_format=torch.contiguous_format) for name, x in found.items()}


def same(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    """Bit for bit."""
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def rows(run: Path) -> list[dict[str, Any]]:
    """Read the metrics without what a clock has measured."""
    lines = (run / "metrics.jsonl").read_text().splitlines()
    found = [json.loads(line) for line in lines]
    return [{k: v for k, v in row.items() if k not in WALL_CLOCK_FIELDS} for row in found]


class Recorder:
    """A sink that keeps rows and can act on them."""

    def __init__(self, act: Any = None) -> None:
        self.rows: list[dict[str, Any]] = []
        self.act = act
        self.closed = False

    def log(self, step: int, row: Mapping[str, float | str]) -> None:
        self.rows.append({"step": step} | dict(row))
        if self.act:
            self.act(step)

    def close(self) -> None:
        self.closed = True


class Scripted:
    """Stands in for the attack of a validation: robust accuracies as given."""

    def __init__(self, *robust: float) -> None:
        self.robust = dict(zip((6, 12, 18, 24, 30), robust, strict=False))

    def __call__(self, *_: Any, step: int, **__: Any) -> Scores:
        return Scores(step, 0.8, self.robust[step])
