"""Models of which is known whether they hide their gradients, and attacks whose outcomes are given."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from soar import randomness
from soar.attacks import Attack
from soar.evaluation.checks import SharedAttacks
from soar.evaluation.target import Target
from soar.threat import Linf, Threat, threat

SHAPE = (1, 6, 6)


class Linear(nn.Module):
    """A linear classifier in float32; the distance to its nearest other class is known in closed form.

    Args:
        factor: what its logits are multiplied by, which changes no prediction
        classes: how many
    """

    def __init__(self, factor: float = 1.0, classes: int = 3) -> None:
        super().__init__()
        keys = randomness.key(0, torch.arange(classes), "weights")
        self.weight = nn.Parameter(randomness.normal(keys, SHAPE, torch.float32))
        self.factor = factor

    def forward(self, x: Tensor) -> Tensor:
        return self.factor * ((x - 0.5).flatten(1) @ self.weight.flatten(1).T)

    def distances(self, x: Tensor, labels: Tensor, dual: float = 1) -> Tensor:
        """How far each image is from the nearest other class; dual is 1 for linf, 2 for l2, inf for l1."""
        with torch.no_grad():
            logits, w = self(x) / self.factor, self.weight.flatten(1)
            gaps = logits.gather(1, labels[:, None]) - logits
            lengths = torch.linalg.vector_norm(w[labels][:, None] - w[None], ord=dual, dim=2)
            return torch.where(lengths > 0, gaps / lengths.clamp(min=1e-12), torch.inf).amin(dim=1)


class Behind(nn.Module):
    """A linear classifier behind a function of its pixels.

    Args:
        change: what happens to the pixels
    """

    def __init__(self, change: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.linear, self.change = Linear(), change

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.linear(self.change(x))
        return logits


class Wall(nn.Module):
    """Two classes; the sign of the margin is that of a linear model, but its gradient points away from zero.

    A search by gradients, or by small moves that must raise the loss, runs against a wall before the border.
    """

    def __init__(self) -> None:
        super().__init__()
        self.linear = Linear(classes=2)

    def forward(self, x: Tensor) -> Tensor:
        z = self.linear(x)
        lead = z[:, 0] - z[:, 1]
        lead = lead.sign() / (1 + lead.abs())
        return torch.stack([lead, -lead], dim=1) / 2


def rounded(x: Tensor) -> Tensor:
    """Keep 51 levels: the gradient is zero, the predictions hardly change."""
    return (50 * x).round() / 50


def images(count: int = 80) -> Tensor:
    """Images well inside the pixel range, so that only the ball limits small perturbations."""
    return 0.3 + 0.4 * randomness.uniform(
        randomness.key(0, torch.arange(count), "images"), SHAPE, torch.float32
    )


def shared(
    model: nn.Module, *, norm: str = "linf", count: int = 80, broken: float = 0.5, **options: Any
) -> SharedAttacks:
    """Attack a model at a radius within which this share of a linear model's images have a way out."""
    x, last = images(count), round(broken * count)
    with torch.no_grad():
        labels = model(x).argmax(dim=1)
    linear = next((one for one in model.modules() if isinstance(one, Linear)), Linear())
    dual = {"linf": 1, "l2": 2, "l1": math.inf}[norm]
    distances = linear.distances(x, labels, dual).abs().sort().values
    eps = round(float(distances[last - 1 : last + 1].mean()), 6)
    return SharedAttacks(target=Target(model=model, data=(x, labels), threat=threat(norm, eps)), **options)


@dataclass(kw_only=True)
class Told(SharedAttacks):
    """Attacks whose outcomes are given: they leave a share of the examples, the first ones.

    Args:
        leaves: gives the share for an attack, a threat and a temperature
    """

    leaves: Callable[[Attack[Any], Threat, float], float]

    def robust(
        self, attack: Attack[Any], *, threat: Threat | None = None, temperature: float = 1.0
    ) -> Tensor:
        limits = threat or self.target.threat
        count = len(self.target)
        robust = torch.arange(count) < round(self.leaves(attack, limits, temperature) * count)
        key = (repr(attack), str(limits), temperature)
        if key not in self._known:
            self._known[key] = robust
            self._keep(attack, limits, temperature, robust)
        return robust


def told(
    leaves: Callable[[Attack[Any], Threat, float], float],
    count: int = 200,
    factor: float = 1.0,
    **options: Any,
) -> Told:
    """Make attacks with given outcomes on a linear model that is correct everywhere."""
    model, x = Linear(factor), images(count)
    with torch.no_grad():
        labels = model(x).argmax(dim=1)
    target = Target(model=model, data=(x, labels), threat=Linf("8/255"))
    return Told(target=target, leaves=leaves, **options)
