"""Measure how robust a model is: every attack on every example, shared over processes, resumable."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

from torch import nn

from soar import values
from soar.attacks.oracle import check_batch_size
from soar.attacks.suites import Wanted, resolve
from soar.environment import environment
from soar.errors import UserError
from soar.evaluation.assessment import Assessment
from soar.evaluation.attack_result import describe as describe
from soar.evaluation.examples import Examples, gather, require_some
from soar.evaluation.inspection import SpareOutputsWarning, spare_outputs
from soar.evaluation.joining import join
from soar.evaluation.journal import Journal, fingerprint
from soar.evaluation.work import Work
from soar.model_state import require_module
from soar.progress import Mode
from soar.threat import Threat, require_threat
from soar.training.distributed import current
from soar.training.weights import Weights

# So many images show whether gradients are masked, at the price of a few batches.
_LOOKED_AT = 128


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
    """Attack a model and say, with intervals, how often it stays right.

    Every attack runs alone on all examples that are classified right, unless its suite gives it only what
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
        fast: attack a copy with batch norms folded and filters stored as fast kernels like it; logits change
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
    images, labels, index = examples.images, examples.labels, examples.index
    highest = int(labels.max())
    if class_names and highest >= len(class_names):
        raise UserError(f"class_names: got {len(class_names)} names, but labels go up to {highest}")
    world = current()
    mine = world.shard(len(labels))
    description = f"{[describe(one) for one in chosen]} {threat} {seed} {data_name}"
    record = (
        nullcontext(None)
        if journal is None
        else Journal(journal, fingerprint(model, description, images, labels), world.rank)
    )
    with record as notes:
        work = Work(model, images[mine], labels[mine], index[mine], threat, seed, batch_size, notes)
        work.look(fast=fast)
        spare = spare_outputs(work.logits.shape[1], labels, class_names) if len(work.logits) else None
        if spare is not None:
            work.notes = (*work.notes, spare)
            if world.is_main:
                warnings.warn(str(spare), SpareOutputsWarning, stacklevel=2)
        mode: Mode = progress if world.is_main else "quiet"
        results = tuple(work.attack(one, mode) for one in chosen)
    part = Assessment(
        model=name,
        data=data_name,
        threat=threat,
        seed=seed,
        index=work.index.cpu(),
        labels=work.labels.cpu(),
        correct=work.correct,
        attacks=results,
        notes=work.notes,
        environment=environment(),
        predicted=work.predicted,
        classes=class_names,
        weights=weights,
    )
    whole = join(world.gather(part))
    if not check:
        return whole
    # It is made of checks that call this function, and so cannot be imported before it.
    from soar.evaluation.first_look import first_look

    some = images[:_LOOKED_AT], labels[:_LOOKED_AT]
    return replace(whole, diagnosis=first_look(model, *some, whole, batch_size=batch_size))


def _check(seed: int, name: str, data_name: str, class_names: tuple[str, ...]) -> None:
    values.whole(seed, "seed")
    values.text(name, "name")
    values.text(data_name, "data_name")
    if isinstance(class_names, str) or not isinstance(class_names, Sequence):
        raise UserError(f"class_names: got a {type(class_names).__name__}, expected a tuple of names")
    for one in class_names:
        values.text(one, "class_names")
