"""Targets whose measurements are known in closed form, shared by tests."""

from __future__ import annotations

import io

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from soar import randomness
from soar.data import Split
from soar.evaluation.target import Target
from soar.threat import Linf, Threat
from tests.attacks.problems import SHAPE, Linear, said

EPS = "0.05"


def split_of(count: int) -> Split:
    """Images so far from black and white that twice `EPS` along two directions stays inside."""
    keys = randomness.key(7, torch.arange(count), "gray levels")
    levels = 77 + randomness.integers(keys, 100, SHAPE)
    return Split(levels.to(torch.uint8), torch.zeros(count, dtype=torch.int64), 100 + torch.arange(count))


def linear_target(threat: Threat | None = None, *, count: int = 20, wrong: int = 3) -> Target:
    """A linear model of two classes; the first few examples are labeled wrong."""
    model, split = Linear(), split_of(count)
    with torch.no_grad():  # both classes are met, and margins reach from 0 to beyond twice eps
        center = (split.images.double() / 255).flatten(1).mean(dim=0) @ model.weight.flatten(1).T
        model.bias.sub_(center)
    labels = said(model, split.images.double() / 255)
    labels[:wrong] = 1 - labels[:wrong]
    return Target(
        model=model, data=Split(split.images, labels, split.indices), threat=threat or Linf(EPS), seed=3
    )


def away(target: Target, row: int) -> Tensor:
    """The gradient of the margin z_y - z_other of the linear model."""
    assert isinstance(target.model, Linear)
    label, weight = int(target.labels[row]), target.model.weight.detach()
    return weight[label] - weight[1 - label]


def pixels(png: bytes) -> Tensor:
    """The gray levels of an image."""
    return torch.from_numpy(np.array(Image.open(io.BytesIO(png)))).to(torch.int64)
