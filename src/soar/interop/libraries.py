"""Attacks of foolbox, torchattacks and ART as attacks of ours, for `soar.evaluate`."""

from __future__ import annotations

from contextlib import suppress
from importlib import metadata
from typing import Any

import torch
from torch import Tensor, nn

from soar.errors import UserError
from soar.interop.external import ExternalAttack, Search
from soar.prediction import LogitsOnly
from soar.threat import Threat


def from_foolbox(attack: Any, model: nn.Module, *, label: str | None = None) -> ExternalAttack:
    """Use an attack of foolbox as one of ours.

    Its radius is that of the threat. An attack in another norm than the threat's is refused.

    Args:
        attack: such as `foolbox.attacks.LinfPGD(steps=40)`
        model: what to attack, the same that is given to `soar.evaluate`; not foolbox's wrapper of it
        label: its name in the record; by default that of the class

    Raises:
        UserError: if the model is not a PyTorch module
    """
    if not isinstance(model, nn.Module):
        raise UserError(f"model: got a {type(model).__name__}, expected a torch.nn.Module on [0, 1] pixels")
    name = label or f"foolbox {type(attack).__name__}"

    def call(x: Tensor, labels: Tensor, threat: Threat) -> Tensor:
        from foolbox.models.pytorch import PyTorchModel

        require_fit(name, threat, norm=getattr(getattr(attack, "distance", None), "p", None))
        wrapped = PyTorchModel(LogitsOnly(model).eval(), bounds=(0, 1), device=x.device)
        clipped: Tensor = attack(wrapped, x, labels, epsilons=threat.radius)[1]
        return clipped

    return _external("foolbox", name, Search(attack, call), model)


def from_torchattacks(attack: Any, *, label: str | None = None) -> ExternalAttack:
    """Use an attack of torchattacks as one of ours.

    The attack holds its model and its radius. Its model should be the one that is given to `soar.evaluate`; a
    norm or a radius that differs from the threat's is refused.

    Args:
        attack: such as `torchattacks.PGD(model, eps=8 / 255)`
        label: its name in the record; by default that of the class

    Raises:
        UserError: if it holds no model
    """
    model = getattr(attack, "model", None)
    if not isinstance(model, nn.Module):
        raise UserError(f"got a {type(attack).__name__} without a model, expected an attack of torchattacks")
    name = label or f"torchattacks {type(attack).__name__}"

    def call(x: Tensor, labels: Tensor, threat: Threat) -> Tensor:
        # Some have their norm in a field and some only at the end of their name, as PGDL2 does.
        norm = "L2" if type(attack).__name__.endswith("L2") else getattr(attack, "norm", None)
        require_fit(name, threat, norm=norm, eps=getattr(attack, "eps", None))
        points: Tensor = attack(x, labels)
        return points

    return _external("torchattacks", name, Search(attack, call), model)


def from_art(attack: Any, *, label: str | None = None) -> ExternalAttack:
    """Use an evasion attack of ART as one of ours.

    The attack holds its classifier, its norm and its radius. Its model should be the one that is given to
    `soar.evaluate`; a norm or a radius that differs from the threat's is refused.

    Args:
        attack: such as `ProjectedGradientDescent(classifier, eps=8 / 255)`, where the classifier is a
            `PyTorchClassifier` of pixels in [0, 1]
        label: its name in the record; by default that of the class

    Raises:
        UserError: if its estimator is not a PyTorch model
    """
    estimator = getattr(attack, "estimator", None)
    model = getattr(estimator, "model", None)
    if not isinstance(model, nn.Module):
        raise UserError(f"got a {type(attack).__name__}, expected an attack of ART on a PyTorchClassifier")
    name = label or f"ART {type(attack).__name__}"

    def call(x: Tensor, labels: Tensor, threat: Threat) -> Tensor:
        require_fit(name, threat, norm=getattr(attack, "norm", None), eps=getattr(attack, "eps", None))
        # ART computes in single precision.
        return torch.from_numpy(attack.generate(x.float().cpu().numpy(), labels.cpu().numpy()))

    # ART goes through a Sequential layer by layer, so that only its own wrapper sees every pass.
    entrance = getattr(estimator, "_model", model)
    return _external("adversarial-robustness-toolbox", name, Search(attack, call), model, entrance)


def require_fit(label: str, threat: Threat, *, norm: Any = None, eps: Any = None) -> None:
    """Refuse an attack that was made for another norm or radius than the threat's, where they are known.

    A larger radius would be cut down by the engine, and a smaller one would make the model look robust.

    Args:
        label: the attack
        threat: what the adversary may do
        norm: as other libraries write it, such as inf, "Linf" or 2
        eps: the radius that the attack holds

    Raises:
        UserError: what was got and what is expected

    >>> from soar.threat import Linf
    >>> require_fit("PGD", Linf(0.1), norm=float("inf"), eps=0.1)
    >>> require_fit("PGD", Linf(0.1), norm="L2")
    Traceback (most recent call last):
    soar.errors.UserError: PGD: got the norm l2, expected that of the threat, linf 0.1
    """
    if norm is not None:
        name = "l" + str(norm).lower().removeprefix("l").removesuffix(".0")
        if name != threat.norm_name:
            raise UserError(f"{label}: got the norm {name}, expected that of the threat, {threat}")
    if isinstance(eps, int | float) and abs(eps - threat.radius) > 1e-6 * threat.radius:
        raise UserError(f"{label}: got eps {eps:g}, expected that of the threat, {threat.radius:g}")


def _external(
    library: str, label: str, search: Search, model: nn.Module, entrance: nn.Module | None = None
) -> ExternalAttack:
    """Make the attack, with the version of the library where it is installed as a package."""
    with suppress(metadata.PackageNotFoundError):
        library = f"{library} {metadata.version(library)}"
    entrance = model if entrance is None else entrance
    return ExternalAttack(label=label, library=library, search=search, model=model, entrance=entrance)
