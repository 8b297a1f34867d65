"""Measure how robust a model is: every attack on every example, shared over processes, resumable."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import overload

from torch import nn

from soar.errors import UserError
from soar.evaluation.assessment import Assessment
from soar.evaluation.attack import as_threats
from soar.evaluation.budget import evaluate_within
from soar.evaluation.corrupted import open_source, with_corruptions
from soar.evaluation.curve import Curve
from soar.evaluation.examples import Data
from soar.evaluation.protocol import evaluate_target
from soar.evaluation.radii import evaluate_radii
from soar.evaluation.suites import Wanted, resolve
from soar.evaluation.target import COMPILED_AGAIN, Target
from soar.model_state import uncompiled
from soar.progress import Mode
from soar.threat import Threat
from soar.weights import Weights


@overload
def evaluate(
    model: nn.Module,
    data: Data,
    threat: Threat,
    attacks: Wanted = ...,
    *,
    seed: int = ...,
    batch_size: int = ...,
    name: str = ...,
    data_name: str = ...,
    progress: Mode = ...,
    journal: Path | None = ...,
    fast: bool = ...,
    check: bool = ...,
    class_names: tuple[str, ...] = ...,
    weights: Weights | None = ...,
    corruptions: bool | str | Path = ...,
    budget: str | float | None = ...,
) -> Assessment: ...


@overload
def evaluate(
    model: nn.Module,
    data: Data,
    threat: Sequence[Threat],
    attacks: Wanted = ...,
    *,
    seed: int = ...,
    batch_size: int = ...,
    name: str = ...,
    data_name: str = ...,
    progress: Mode = ...,
    journal: Path | None = ...,
    fast: bool = ...,
    check: bool = ...,
    class_names: tuple[str, ...] = ...,
    weights: Weights | None = ...,
    corruptions: bool | str | Path = ...,
) -> Curve[Assessment]: ...


def evaluate(
    model: nn.Module,
    data: Data,
    threat: Threat | Sequence[Threat],
    attacks: Wanted = "auto",
    *,
    seed: int = 0,
    batch_size: int = 128,
    name: str = "model",
    data_name: str = "data",
    progress: Mode = "quiet",
    journal: Path | None = None,
    fast: bool = True,
    check: bool = True,
    class_names: tuple[str, ...] = (),
    weights: Weights | None = None,
    corruptions: bool | str | Path = False,
    budget: str | float | None = None,
) -> Assessment | Curve[Assessment]:
    """Attack a model and return its clean and robust accuracy, with intervals.

    Every attack runs alone on all examples that are correctly classified, unless its suite gives it only what
    earlier attacks have left. Before that the model's outputs are inspected, and what may mislead attacks is
    noted. Under torchrun each process takes a part of the examples and all of them return the whole result.

    Args:
        model: any module that maps images in [0, 1] to logits
        data: a split, images (uint8, or float in [0, 1]) and labels, or a torch Dataset or DataLoader of them
        threat: what the adversary may do; several radii give the curve, see `evaluate_radii`
        attacks: a suite such as "auto" or "standard", an attack, or a list of them
        seed: seed of all random numbers
        batch_size: how many examples are evaluated at once
        name: what to call the model in the record
        data_name: what to call the data in the record
        progress: "auto", "live", "plain" or "quiet"
        journal: a file for what is found on the way; a second call with the same arguments goes on from it
        fast: attack a copy with batch norms fused and filters stored as fast kernels like it; logits change
            by rounding only
        check: add a first look at gradient masking, which costs next to nothing
        class_names: what the classes are called, for the record
        weights: what the model was filled with, for the record
        corruptions: also measure accuracy under common corruptions, made here (True) or read from a
            folder with the files of CIFAR-10-C
        budget: a time such as "10m" or seconds; as many examples as it allows are drawn at random

    Returns:
        The assessment; for several threats a `Curve` of them, a tuple in their order.

    Raises:
        UserError: if the data, an attack or the model's outputs cannot be used

    >>> import torch
    >>> from soar.threat import Linf
    >>> x, y = torch.tensor([[[[0.9, 0.1]]], [[[0.45, 0.55]]]]), torch.tensor([0, 1])
    >>> found = evaluate(nn.Flatten(), (x, y), Linf("0.1"), "fgsm")
    >>> found.accuracy("clean"), found.accuracy("FGSM"), found.worst_case
    (1.0, 0.5, 0.5)
    """
    threats = as_threats(threat)
    plan = resolve(attacks, threats[0].norm_name)
    target = Target(
        model=model,
        data=data,
        threat=threats[0],
        seed=seed,
        batch_size=batch_size,
        progress=progress,
        name=name,
        data_name=data_name,
        class_names=class_names,
        weights=weights,
    )
    if budget is not None and not isinstance(threat, Threat):
        raise UserError("budget: cannot be combined with several threats; choose one radius")
    source = open_source(corruptions, target)
    with uncompiled(model, COMPILED_AGAIN):
        if not isinstance(threat, Threat):
            curve = evaluate_radii(target, threats, plan, journal=journal, fast=fast, check=check)
            return Curve(with_corruptions(curve, target, source))
        if budget is not None:
            found = evaluate_within(target, budget, plan, journal=journal, fast=fast, check=check)
        else:
            found = evaluate_target(target, plan, journal=journal, fast=fast, check=check)
        return with_corruptions((found,), target, source)[0]
