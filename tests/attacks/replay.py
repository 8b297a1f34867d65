"""Attacks driven step by step, so that every state can be compared with a plain re-implementation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from soar import randomness
from soar.attacks import Answer, Attack, Examples
from soar.attacks.oracle import query_model
from soar.threat import Threat

Shape = tuple[int, int, int]


class Rough(nn.Module):
    """A small nonlinear classifier in float64 for images of any shape."""

    def __init__(self, shape: Shape, classes: int = 4, scale: float = 4.0) -> None:
        super().__init__()
        keys = randomness.key(0, torch.arange(16), "rough")
        self.first = nn.Parameter(randomness.normal(keys, shape, torch.float64).flatten(1))
        keys = randomness.key(0, torch.arange(classes), "rough outputs")
        self.second = nn.Parameter(scale * randomness.normal(keys, (16,), torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh((x.flatten(1) - 0.5) @ self.first.T) @ self.second.T


class Constant(nn.Module):
    """Says class 0 whatever it sees."""

    def __init__(self) -> None:
        super().__init__()
        self.logits = nn.Parameter(torch.tensor([1.0, 0.0, -1.0], dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        return self.logits.expand(len(x), 3)


def pictures(count: int, shape: Shape, low: float = 0.0, high: float = 1.0) -> Tensor:
    keys = randomness.key(0, torch.arange(count), "pictures")
    return low + (high - low) * randomness.uniform(keys, shape, torch.float64)


def examples(x: Tensor, labels: Tensor, *, logits: Tensor | None = None, seed: int = 3) -> Examples:
    """Examples with identities and entries that differ from their places."""
    place = torch.arange(len(x))
    nobody = torch.full_like(labels, -1)
    return Examples(x, labels, nobody, place, 10 + 7 * place, place % 2, logits, seed)


def follow(
    attack: Attack[Any], state: Any, model: nn.Module, threat: Threat, steps: int
) -> Iterator[tuple[Any, Tensor, Answer]]:
    """Give every state with the points that were evaluated in it and the answer, whoever is fooled."""
    for _ in range(steps):
        points, answer = query_model(model, attack, state, threat, gradient=False)
        yield state, points, answer
        state = attack.update(state, answer, threat)
