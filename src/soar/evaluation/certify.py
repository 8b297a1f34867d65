"""Certify a model: which examples no perturbation within a threat can change."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import overload

from torch import nn

from soar.evaluation.attack import as_threats
from soar.evaluation.certificate import Certificate
from soar.evaluation.certification import certify_target
from soar.evaluation.curve import Curve
from soar.evaluation.examples import Data
from soar.evaluation.methods import method_of
from soar.evaluation.target import Target
from soar.progress import Mode
from soar.threat import Threat
from soar.weights import Weights


@overload
def certify(
    model: nn.Module,
    data: Data,
    threat: Threat,
    method: str = ...,
    *,
    seed: int = ...,
    batch_size: int = ...,
    name: str = ...,
    data_name: str = ...,
    progress: Mode = ...,
    journal: Path | None = ...,
    weights: Weights | None = ...,
) -> Certificate: ...


@overload
def certify(
    model: nn.Module,
    data: Data,
    threat: Sequence[Threat],
    method: str = ...,
    *,
    seed: int = ...,
    batch_size: int = ...,
    name: str = ...,
    data_name: str = ...,
    progress: Mode = ...,
    journal: Path | None = ...,
    weights: Weights | None = ...,
) -> Curve[Certificate]: ...


def certify(
    model: nn.Module,
    data: Data,
    threat: Threat | Sequence[Threat],
    method: str = "crown",
    *,
    seed: int = 0,
    batch_size: int = 64,
    name: str = "model",
    data_name: str = "data",
    progress: Mode = "quiet",
    journal: Path | None = None,
    weights: Weights | None = None,
) -> Certificate | Curve[Certificate]:
    """Prove for which examples no perturbation within a threat changes the prediction.

    The certified accuracy is a lower bound of the robust accuracy; accuracy under attack is an upper bound.
    Every certified example is attacked, too; if an attack succeeds, which means that the bound is wrong, both
    are reported in an error. Under torchrun each process takes a part of the examples.

    Args:
        model: any module that maps images in [0, 1] to logits; bounds need one of known layers
        data: a split, images (uint8, or float in [0, 1]) and labels, or a torch Dataset or DataLoader of them
        threat: what the adversary may do; several radii give the curve: the smallest comes first, and what is
            not certified there is not tried at larger ones
        method: "crown"; "ibp", which is faster and looser; or "smoothing", which certifies the smoothed model
            and not the model itself, in l2; with options as in "crown:steps=20" or "smoothing:sigma=0.5"
        seed: seed of all random numbers
        batch_size: how many examples are bounded at once
        name: what to call the model in the record
        data_name: what to call the data in the record
        progress: "auto", "live", "plain" or "quiet"
        journal: a file for what is found on the way; a second call with the same arguments goes on from it
        weights: what the model was filled with, for the record

    Returns:
        The certificate; for several threats a `Curve` of them, a tuple in their order.

    Raises:
        UserError: if the data cannot be used, the model uses a function without a bound, or an attack fools a
            certified example

    >>> import torch
    >>> from soar.threat import Linf
    >>> x, y = torch.tensor([[[[0.9, 0.1]]], [[[0.45, 0.55]]]]), torch.tensor([0, 1])
    >>> certify(nn.Flatten(), (x, y), Linf("0.1")).certified
    tensor([ True, False])
    """
    threats = as_threats(threat)
    target = Target(
        model=model,
        data=data,
        threat=threats[0],
        seed=seed,
        batch_size=batch_size,
        progress=progress,
        name=name,
        data_name=data_name,
        weights=weights,
    )
    found = certify_target(target, threats, method_of(method), journal=journal)
    return found[0] if isinstance(threat, Threat) else Curve(found)
