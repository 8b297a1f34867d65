"""Certify by bounds of the logits: interval propagation, or CROWN on top of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from soar import values
from soar.bounds import crown_margins, propagate
from soar.errors import UserError, unknown
from soar.threat import Threat


@dataclass(frozen=True, kw_only=True)
class Bounding:
    """Certify an example if a lower bound of its margin is positive.

    Args:
        method: "crown" or "ibp"
        refine: bound nonlinear layers by CROWN, too, not only by intervals: much tighter and much slower
        steps: gradient steps that improve the lines below ReLUs (alpha-CROWN)
        precision: what is computed in; float64 leaves next to nothing to rounding
    """

    method: Literal["crown", "ibp"] = "crown"
    refine: bool = False
    steps: int = 0
    precision: Literal["float32", "float64"] = "float32"

    def __post_init__(self) -> None:
        values.whole(self.steps, "steps", least=0)
        if self.method not in ("crown", "ibp"):
            raise unknown("method", self.method, ("crown", "ibp"), "flag --method")
        if self.method == "ibp" and (self.refine or self.steps):
            raise UserError("refine and steps: belong to the method crown, got ibp")
        if self.precision not in ("float32", "float64"):
            raise unknown("precision", self.precision, ("float32", "float64"), "flag --precision")

    @property
    def options(self) -> dict[str, float | int | str | bool]:
        """What is recorded."""
        of_crown = {"refine": self.refine, "steps": self.steps} if self.method == "crown" else {}
        return {**of_crown, "precision": self.precision}

    def margins(self, model: nn.Module, x: Tensor, y: Tensor, threat: Threat) -> Tensor:
        """Return a lower bound of the margin of each example.

        Args:
            model: in eval mode, its parameters without gradients
            x: images in [0, 1]
            y: their labels
            threat: what the adversary may do
        """
        if self.method == "crown":
            return crown_margins(model, x, y, threat, refine=self.refine, steps=self.steps).amin(dim=1)
        with torch.no_grad():
            return propagate(model, x, threat).margins(y).amin(dim=1)
