"""Models that are exported in tests."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

import soar

BUILT: dict[str, tuple[dict[str, Any], tuple[int, int, int]]] = {
    "cnn6": ({"width": 2, "hidden": 4}, (1, 16, 18)),
    "cnn8": ({"width": 4, "hidden": 4, "norm": "group"}, (3, 16, 16)),
    "resnet10": ({"width": 2, "norm": "batch", "input_normalization": "per-image"}, (3, 8, 8)),
    "resnet18": ({"width": 2, "input_normalization": "cifar10"}, (3, 8, 8)),
    "wide_resnet": ({"depth": 10, "widen_factor": 1, "activation": "softplus"}, (3, 8, 8)),
}


def built(name: str) -> tuple[nn.Module, Tensor]:
    """A small model of each kind, in training mode, and images for it."""
    options, shape = BUILT[name]
    model = soar.models.build(name, seed=1, image_shape=shape, options=options)
    return model, torch.rand(3, *shape, generator=torch.Generator().manual_seed(2))


class Stubborn(nn.Module):
    """Decides by the number of images, which no export with a free batch can follow."""

    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(1) * float(len(x))


class Branching(nn.Module):
    """Decides by what the images hold; four pixels never make up the sum of twelve in the tests."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))

    def forward(self, x: Tensor) -> Tensor:
        if float(x.sum()) > 4:
            return x.flatten(1) * self.weight
        return x.flatten(1) + 1 + self.weight
