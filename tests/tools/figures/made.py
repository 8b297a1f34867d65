"""What the tests of figures share: a figure that is kept instead of saved, and a small trained network."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

import numpy
import pytest
import torch
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from tools.figures.network import Network
from torch import Tensor, nn

from soar.threat import Linf
from tests.theory.quadratics import quadratic_case


def keep(monkeypatch: pytest.MonkeyPatch, module: ModuleType) -> Figure:
    """Hand out a figure instead of a file."""
    figure = Figure()

    @contextmanager
    def drawing(*_: object, **__: object) -> Iterator[Figure]:
        yield figure

    monkeypatch.setattr(module, "drawing", drawing)
    return figure


def x_of(line: Line2D) -> list[float]:
    return [float(x) for x in numpy.asarray(line.get_xdata())]


def y_of(line: Line2D) -> list[float]:
    return [float(y) for y in numpy.asarray(line.get_ydata())]


class OneKink(nn.Module):
    r"""Returns logits \( (0, -q) \), \( q = a t + b \max(t - k, 0) \), t the mean of the pixels minus 1/2."""

    def __init__(self, slope: float, jump: float, kink: float) -> None:
        super().__init__()
        self.slope, self.jump, self.kink = slope, jump, kink

    def forward(self, x: Tensor) -> Tensor:
        """Return two logits per image."""
        t = x.flatten(1).mean(dim=1) - 0.5
        q = self.slope * t + self.jump * torch.relu(t - self.kink)
        return torch.stack([torch.zeros_like(q), -q], dim=1)


def gray(model: nn.Module, images: int = 3) -> Network:
    """Return gray images of four pixels with label 1 for a model."""
    return Network(
        name="made",
        data_name="gray",
        model=model,
        threat=Linf("0.1"),
        x=torch.full((images, 1, 2, 2), 0.5, dtype=torch.float64),
        y=torch.ones(images, dtype=torch.int64),
        index=torch.arange(images),
    )


def quadratic_network(eps: float, slope: float) -> Network:
    """Return a network whose loss is a known quadratic function of three gray images."""
    return Network("quadratic", "gray", **vars(quadratic_case(eps, slope)))
