"""Networks, images and searches for the tests of MMA."""

from __future__ import annotations

import torch
from torch import Tensor

from soar.attacks.recall import Recall, recalled
from soar.objectives import MMA
from soar.objectives.mma import Boundary
from soar.shapes import per_example
from soar.threat import L2, Linf
from tests.attacks.problems import SHAPE, TinyNet, images, said

PATTERN = torch.linspace(-0.5, 0.5, 12, dtype=torch.float64).reshape(1, *SHAPE)


class FixedLinf(Linf):
    """Starts where anyone can compute it."""

    def random_start(self, x: Tensor, keys: Tensor, radius: Tensor | None = None) -> Tensor:
        assert radius is not None
        return x + per_example(radius, x) * PATTERN


class FixedL2(L2):
    """Starts where anyone can compute it."""

    def random_start(self, x: Tensor, keys: Tensor, radius: Tensor | None = None) -> Tensor:
        assert radius is not None
        moved: Tensor = x + per_example(radius, x) * PATTERN / PATTERN.norm() / 2
        return moved


def search(objective: MMA, x: Tensor, y: Tensor, index: Tensor | None = None, step: int = 0) -> Boundary:
    """Give what the search inside a call finds."""
    recall = Recall()
    with recall.recording():
        objective(x, y, torch.arange(len(y)) if index is None else index, step)
    with recall.replaying():
        return recalled(_not_asked)


def holding(found: Boundary) -> Recall:
    """Answer the next search with what was found before."""
    recall = Recall()
    with recall.recording():
        recalled(lambda: found)
    return recall


def _not_asked() -> Boundary:
    raise AssertionError("the search should have been answered")


def network() -> TinyNet:
    """All five classes occur; boundaries are 0.001 to 0.026 away in linf, and 0.003 to 0.08 in l2."""
    model = TinyNet(seed=7)
    last = model.layers[3]
    with torch.no_grad():
        last.get_parameter("bias").sub_(model(images(10)).mean(dim=0))
        for parameter in last.parameters():
            parameter.mul_(8)
    return model


def all_right(count: int = 6) -> tuple[Tensor, Tensor]:
    """Images of which that network is sure."""
    x = images(count)
    return x, said(network(), x)


def some_of_each() -> tuple[Tensor, Tensor]:
    """Images of which the fourth and the ninth are wrong."""
    x, y = all_right(10)
    y[3], y[8] = (y[3] + 1) % 5, (y[8] + 2) % 5
    return x, y
