"""Certify by bounds of the logits: interval propagation, or CROWN on top of it."""

from __future__ import annotations

import copy
from dataclasses import asdict, dataclass, replace
from typing import Literal

import torch
from torch import Tensor, nn

from soar import values
from soar.bounds import crown_margins, propagate
from soar.errors import UserError, unknown
from soar.evaluation.inspection import inspect
from soar.evaluation.target import Target
from soar.model_state import placement, probing, with_float64
from soar.threat import Threat

Precision = Literal["float32", "float64"]


@dataclass(frozen=True, kw_only=True)
class Bounding:
    """Certify an example if a lower bound of its margin is positive.

    Args:
        method: "crown" or "ibp"
        refine: bound the inputs of nonlinear layers by CROWN, too, not only by intervals
        steps: gradient steps that tighten the planes below ReLUs (alpha-CROWN)
        precision: what is computed in; float64 loses next to nothing to rounding, and certifies the model as
            float64 computes it

    Offsets of CROWN are in float64 in any case. A device that has none (Apple's MPS) leaves them, and all of
    float64, to the CPU.
    """

    method: Literal["crown", "ibp"]
    refine: bool = False
    steps: int = 0
    precision: Precision = "float32"

    def __post_init__(self) -> None:
        values.whole(self.steps, "method.steps", least=0)
        values.truth(self.refine, "method.refine")
        values.text(self.precision, "method.precision")
        if self.precision not in ("float32", "float64"):
            raise unknown("precision", self.precision, ("float32", "float64"), "flag --method")

    @property
    def options(self) -> dict[str, float | int | str | bool]:
        """What is recorded."""
        found = {name: value for name, value in asdict(self).items() if name != "method"}
        return found if self.method == "crown" else {"precision": self.precision}

    def prepared(self, target: Target) -> Target:
        """Return the target with its model in the precision of the bounds.

        Raises:
            UserError: if its predictions are not a fixed function of each image, or it cannot be bounded
        """
        for note in inspect(target):
            if note.kind in ("random", "state", "batch"):
                raise UserError(f"{note.message}; only a fixed function of each image has bounds")
        if self.method == "crown" or self.precision == "float64":
            target = replace(target, model=with_float64(target.model))
        if self.precision == "float64" and placement(target.model)[1] == torch.float32:
            target = replace(target, model=copy.deepcopy(target.model).double())
        # A model that cannot be bounded is refused even if there is nothing to certify, by every process.
        with probing(target.model), torch.no_grad():
            propagate(target.model, target.x[:1], target.threat)
        return target

    def certified(self, target: Target, rows: Tensor, threat: Threat) -> Tensor:
        """Return which examples keep their predictions.

        Args:
            target: as it was `prepared`
            rows: positions of correctly classified examples
            threat: what the adversary may do

        Raises:
            UserError: if the model cannot be bounded
        """
        x, y = target.x[rows], target.y[rows]
        with probing(target.model):
            margins = self._margins(target.model, x, y, threat)
        return (margins > 0).all(dim=1).cpu()

    def _margins(self, model: nn.Module, x: Tensor, y: Tensor, threat: Threat) -> Tensor:
        if self.method == "crown":
            return crown_margins(model, x, y, threat, refine=self.refine, steps=self.steps)
        with torch.no_grad():
            return propagate(model, x, threat).margins(y)
