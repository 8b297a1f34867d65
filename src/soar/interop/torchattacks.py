"""Attacks of torchattacks inside `soar.evaluate`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from soar.errors import UserError
from soar.interop.foreign import Foreign, require_fit, settings, versioned
from soar.threat import Threat


def from_torchattacks(attack: Any, *, label: str | None = None) -> Foreign:
    """Use an attack of torchattacks as one of ours.

    The attack holds its model and its radius. Its model should be the one that is given to `soar.evaluate`; a
    norm or a radius that differs from the threat's is refused.

    Args:
        attack: such as `torchattacks.PGD(model, eps=8 / 255)`
        label: what the record calls it; by default the class's name

    Raises:
        UserError: if it holds no model
    """
    model = getattr(attack, "model", None)
    if not isinstance(model, nn.Module):
        raise UserError(f"got a {type(attack).__name__} without a model, expected an attack of torchattacks")
    name = label or f"torchattacks {type(attack).__name__}"
    return Foreign(name, versioned("torchattacks"), _TorchattacksSearch(attack, name), model, model)


@dataclass(frozen=True)
class _TorchattacksSearch:
    attack: Any
    label: str

    def __call__(self, x: Tensor, labels: Tensor, threat: Threat) -> Tensor:
        # Some tell their norm by a field and some only by the end of their name, as PGDL2 does.
        norm = "L2" if type(self.attack).__name__.endswith("L2") else getattr(self.attack, "norm", None)
        require_fit(self.label, threat, norm=norm, eps=getattr(self.attack, "eps", None))
        points: Tensor = self.attack(x, labels)
        return points

    def __str__(self) -> str:
        return settings(self.attack)
