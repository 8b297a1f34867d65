"""Measurements of models whose answers are known, without a run folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from soar.data import Split
from soar.evaluation.target import Target
from soar.experiments.measure.task import BATCH, Task
from soar.threat import Linf


class Linear(nn.Module):
    """Two classes with the logits <w, x> and 0."""

    def __init__(self, weights: Tensor) -> None:
        super().__init__()
        self.weights = nn.Parameter(weights)

    def forward(self, x: Tensor) -> Tensor:
        first = x.flatten(1) @ self.weights
        return torch.stack([first, torch.zeros_like(first)], dim=1)


class Constant(nn.Module):
    """The same logits for every image, yet on the graph."""

    def __init__(self, logits: Tensor) -> None:
        super().__init__()
        self.logits = nn.Parameter(logits)

    def forward(self, x: Tensor) -> Tensor:
        return self.logits + 0 * x.flatten(1).sum(dim=1, keepdim=True)


def gray(count: int, shape: tuple[int, int, int] = (1, 4, 4)) -> Split:
    """Images that leave room on both sides, of class 0."""
    images = torch.full((count, *shape), 128, dtype=torch.uint8)
    return Split(images, torch.zeros(count, dtype=torch.int64), torch.arange(count))


def task(model: nn.Module, split: Split, kind: str, cache: Path = Path(), **options: Any) -> Task:
    payload = {
        "network": "n",
        "measurement": {"kind": kind, "options": options},
        "examples": len(split),
        "seed": 0,
        "sources": {},
        "cache": str(cache),
    }
    made = Task(payload)
    threat = made.threat if "eps" in options else Linf("8/255")
    made.__dict__["target"] = Target(
        model=model, data=split, threat=threat, batch_size=BATCH, progress="plain", name="made"
    )
    return made
