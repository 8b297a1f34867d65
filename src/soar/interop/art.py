"""Attacks of the Adversarial Robustness Toolbox inside `soar.evaluate`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from soar.errors import UserError
from soar.interop.foreign import Foreign, require_fit, settings, versioned
from soar.threat import Threat


def from_art(attack: Any, *, label: str | None = None) -> Foreign:
    """Use an evasion attack of ART as one of ours.

    The attack holds its classifier, its norm and its radius. Its model should be the one that is given to
    `soar.evaluate`; a norm or a radius that differs from the threat's is refused.

    Args:
        attack: such as `ProjectedGradientDescent(classifier, eps=8 / 255)`, where the classifier is a
            `PyTorchClassifier` of pixels in [0, 1]
        label: what the record calls it; by default the class's name

    Raises:
        UserError: if its estimator is not a PyTorch model
    """
    estimator = getattr(attack, "estimator", None)
    model = getattr(estimator, "model", None)
    if not isinstance(model, nn.Module):
        raise UserError(f"got a {type(attack).__name__}, expected an attack of ART on a PyTorchClassifier")
    # ART goes through a Sequential layer by layer, so that only its own wrapper sees every pass.
    wrapper = getattr(estimator, "_model", model)
    name = label or f"ART {type(attack).__name__}"
    library = versioned("adversarial-robustness-toolbox")
    return Foreign(name, library, _ARTSearch(attack, name), model, wrapper)


@dataclass(frozen=True)
class _ARTSearch:
    attack: Any
    label: str

    def __call__(self, x: Tensor, labels: Tensor, threat: Threat) -> Tensor:
        norm, eps = getattr(self.attack, "norm", None), getattr(self.attack, "eps", None)
        require_fit(self.label, threat, norm=norm, eps=eps)
        # ART computes in single precision.
        found = self.attack.generate(x.float().cpu().numpy(), labels.cpu().numpy())
        return torch.from_numpy(found)

    def __str__(self) -> str:
        return settings(self.attack)
