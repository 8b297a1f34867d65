"""A network whose cross-entropy is a known quadratic function of the image."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from soar.threat import Linf

SHAPE = (1, 2, 2)


class Quadratic(nn.Module):
    r"""Returns logits (0, log(e^q - 1)), so the loss of label 0 is \( q = \frac12 (b v^T x + a)^2 + 1 \)."""

    def __init__(self, slope: float, offset: float) -> None:
        super().__init__()
        self.slope, self.offset = slope, offset

    def forward(self, x: Tensor) -> Tensor:
        """Return two logits per image."""
        flat = x.flatten(1).double()
        q = 0.5 * (self.slope * flat.sum(dim=1) / flat.shape[1] ** 0.5 + self.offset).square() + 1
        return torch.stack([torch.zeros_like(q), torch.expm1(q).log()], dim=1)


@dataclass(frozen=True)
class Case:
    """What `tools.theory.derivation.measure` takes, in its order."""

    model: nn.Module
    threat: Linf
    x: Tensor
    y: Tensor
    index: Tensor


def quadratic_case(eps: float, slope: float) -> Case:
    """Return three gray images at which the loss is 1 + 1/2 along the diagonal, as in the counterexample."""
    level = 0.5
    return Case(
        model=Quadratic(slope, offset=1 - slope * level * 2.0),
        threat=Linf(eps),
        x=torch.full((3, *SHAPE), level, dtype=torch.float64),
        y=torch.zeros(3, dtype=torch.int64),
        index=torch.arange(3),
    )
