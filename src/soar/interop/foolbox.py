"""Attacks of foolbox inside `soar.evaluate`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from soar.errors import UserError
from soar.interop.foreign import Foreign, require_fit, settings, versioned
from soar.model_state import placement
from soar.threat import Threat


def from_foolbox(attack: Any, model: nn.Module, *, label: str | None = None) -> Foreign:
    """Use an attack of foolbox as one of ours.

    Its radius is that of the threat. An attack in another norm than the threat's is refused.

    Args:
        attack: such as `foolbox.attacks.LinfPGD(steps=40)`
        model: what to attack, the same that is given to `soar.evaluate`; not foolbox's wrapper of it
        label: what the record calls it; by default the class's name

    Raises:
        UserError: if the model is not a PyTorch module
    """
    if not isinstance(model, nn.Module):
        raise UserError(f"model: got a {type(model).__name__}, expected a torch.nn.Module on [0, 1] pixels")
    name = label or f"foolbox {type(attack).__name__}"
    return Foreign(name, versioned("foolbox"), _FoolboxSearch(attack, model, name), model, model)


@dataclass(frozen=True)
class _FoolboxSearch:
    attack: Any
    model: nn.Module
    label: str

    def __call__(self, x: Tensor, labels: Tensor, threat: Threat) -> Tensor:
        from foolbox.models.pytorch import PyTorchModel

        require_fit(self.label, threat, norm=getattr(getattr(self.attack, "distance", None), "p", None))
        device, _ = placement(self.model)
        wrapped = PyTorchModel(self.model, bounds=(0, 1), device=device)
        _, points, _ = self.attack(wrapped, x, labels, epsilons=threat.radius)
        clipped: Tensor = points
        return clipped

    def __str__(self) -> str:
        return settings(self.attack)
