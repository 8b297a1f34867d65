"""Measure how robust a model is: every attack on every example, shared over processes, resumable."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from torch import nn

from soar import values
from soar.errors import UserError
from soar.evaluation.assess import assess
from soar.evaluation.assessment import Assessment
from soar.evaluation.examples import Examples, gather, require_some
from soar.evaluation.first_look import MOST_EXAMPLES, first_look
from soar.evaluation.suites import Wanted, resolve
from soar.inputs import check_batch_size
from soar.model_state import require_module
from soar.progress import Mode
from soar.threat import Threat, require_threat
from soar.weights import Weights


def evaluate(
    model: nn.Module,
    data: Examples,
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
    earlier attacks have left. Before that the model is looked at, and what is odd about it is noted. Under
    torchrun each process takes a part of the examples and all of them return the whole result.

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
        UserError: if the data, an attack or the model's answers make no sense

    >>> import torch
    >>> from soar.threat import Linf
    >>> x, y = torch.tensor([[[[0.9, 0.1]]], [[[0.45, 0.55]]]]), torch.tensor([0, 1])
    >>> found = evaluate(nn.Flatten(), (x, y), Linf("0.1"), "fgsm")
    >>> found.accuracy("clean"), found.accuracy("FGSM"), found.worst_case
    (1.0, 0.5, 0.5)
    """
    require_module(model)
    require_threat(threat)
    check_batch_size(batch_size)
    _check(seed, name, data_name, class_names)
    chosen = resolve(attacks)
    examples = gather(data)
    require_some(examples)
    highest = int(examples.labels.max())
    if class_names and highest >= len(class_names):
        raise UserError(f"class_names: got {len(class_names)} names, but labels go up to {highest}")
    found = assess(
        model,
        examples,
        threat,
        chosen,
        seed=seed,
        batch_size=batch_size,
        name=name,
        data_name=data_name,
        progress=progress,
        journal=journal,
        fast=fast,
        class_names=class_names,
        weights=weights,
    )
    if not check:
        return found
    some = examples.images[:MOST_EXAMPLES], examples.labels[:MOST_EXAMPLES]
    return replace(found, diagnosis=first_look(model, *some, found, batch_size=batch_size))


def _check(seed: int, name: str, data_name: str, class_names: tuple[str, ...]) -> None:
    values.whole(seed, "seed")
    values.text(name, "name")
    values.text(data_name, "data_name")
    if isinstance(class_names, str) or not isinstance(class_names, Sequence):
        raise UserError(f"class_names: got a {type(class_names).__name__}, expected a tuple of names")
    for one in class_names:
        values.text(one, "class_names")
