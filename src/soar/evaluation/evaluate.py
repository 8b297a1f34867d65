"""Measure how robust a model is: every attack on every example, shared over processes, resumable."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path

from torch import nn

from soar.distributed import current
from soar.evaluation.assess import assess
from soar.evaluation.assessment import Assessment
from soar.evaluation.examples import Data
from soar.evaluation.first_look import first_look
from soar.evaluation.inspection import SpareOutputsWarning
from soar.evaluation.suites import Wanted, resolve
from soar.evaluation.target import Target
from soar.progress import Mode
from soar.threat import Threat
from soar.weights import Weights


def evaluate(
    model: nn.Module,
    data: Data,
    threat: Threat,
    attacks: Wanted = "quick",
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
) -> Assessment:
    """Attack a model and return its clean and robust accuracy, with intervals.

    Every attack runs alone on all examples that are correctly classified, unless its suite gives it only what
    earlier attacks have left. Before that the model's outputs are inspected, and what may mislead attacks is
    noted. Under torchrun each process takes a part of the examples and all of them return the whole result.

    Args:
        model: any module that maps images in [0, 1] to logits
        data: a split, images (uint8, or float in [0, 1]) and labels, or a torch Dataset or DataLoader of them
        threat: what the adversary may do
        attacks: a suite such as "quick" or "standard", an attack, or a list of them
        seed: seed of all random numbers
        batch_size: how many examples are evaluated at once
        name: what to call the model in the record
        data_name: what to call the data in the record
        progress: "auto", "live", "plain" or "quiet"
        journal: a file for what is found on the way; a second call with the same arguments goes on from it
        fast: attack a copy with batch norms fused and filters stored as fast kernels like it; logits change
            by rounding only
        check: add what can be said about gradient masking for next to nothing
        class_names: what the classes are called, for the record
        weights: what the model was filled with, for the record

    Raises:
        UserError: if the data, an attack or the model's outputs cannot be used

    >>> import torch
    >>> from soar.threat import Linf
    >>> x, y = torch.tensor([[[[0.9, 0.1]]], [[[0.45, 0.55]]]]), torch.tensor([0, 1])
    >>> found = evaluate(nn.Flatten(), (x, y), Linf("0.1"), "fgsm")
    >>> found.accuracy("clean"), found.accuracy("FGSM"), found.worst_case
    (1.0, 0.5, 0.5)
    """
    plan = resolve(attacks)
    target = Target(
        model=model,
        data=data,
        threat=threat,
        seed=seed,
        batch_size=batch_size,
        progress=progress,
        name=name,
        data_name=data_name,
        class_names=class_names,
        weights=weights,
    )
    return evaluate_target(target, plan, journal=journal, fast=fast, check=check)


def evaluate_target(
    target: Target,
    attacks: Wanted = "quick",
    *,
    journal: Path | None = None,
    fast: bool = True,
    check: bool = True,
) -> Assessment:
    """Attack a target as `evaluate` does, and return its clean and robust accuracy.

    Args:
        target: the model, its examples and the threat
        attacks: a suite such as "quick" or "standard", an attack, or a list of them
        journal: a file for what is found on the way
        fast: attack a faster copy of the model
        check: add what can be said about gradient masking for next to nothing

    Raises:
        UserError: if an attack or the model's outputs cannot be used
    """
    found = assess(target, resolve(attacks), journal=journal, fast=fast)
    for note in found.notes:
        if note.kind == "outputs" and current().is_main:
            # The line that the user wrote is the one that called `evaluate`.
            warnings.warn(str(note), SpareOutputsWarning, stacklevel=3)
    return replace(found, diagnosis=first_look(target, found)) if check else found
