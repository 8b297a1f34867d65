"""Other libraries, imported without the warnings that they cause, and the models they are tried on."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from soar.attacks import Examples
from tests.attacks.problems import Linear, images, said


def library(name: str) -> Any:
    """Import a library, or skip the test where it is not installed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip(name)


class Counted(nn.Module):
    """Counts the samples that go through a model, forwards and backwards, by itself."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self.forwards = self.backwards = 0

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.model(x)
        self.forwards += len(x)
        if logits.requires_grad:
            logits.register_hook(self._back)
        return logits

    def _back(self, gradient: Tensor) -> None:
        self.backwards += len(gradient)


def problem(count: int = 30) -> tuple[Linear, Tensor, Tensor]:
    """Two classes and a linear model in single precision: FGSM finds the nearest point of the other class."""
    model = Linear()
    x = images(count).float()
    model.float()
    return model, x, said(model, x)


def examples(x: Tensor, labels: Tensor, seed: int = 0) -> Examples:
    """What the engine starts an attack on."""
    return Examples.of(x, labels, seed=seed)


def falls(model: Linear, x: Tensor, labels: Tensor, eps: float) -> Tensor:
    """Which images can be fooled within an linf ball."""
    near: Tensor = model.distances(x, labels, dual=1) < eps
    assert near.any() and not near.all()
    return near


def middle_radius(model: Linear, x: Tensor, labels: Tensor) -> float:
    """A radius at which half of the images fall, halfway between two of them."""
    near = model.distances(x, labels, dual=1).sort().values
    half = len(near) // 2
    return round(float(near[half - 1] + near[half]) / 2, 5)


def generators() -> tuple[Tensor, str]:
    """What the global generators hold."""
    import numpy

    return torch.get_rng_state(), str(numpy.random.get_state(legacy=False))
