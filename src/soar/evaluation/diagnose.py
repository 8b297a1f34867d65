"""Is a model robust, or does it only mask its gradients? Nine checks and a verdict."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from pathlib import Path

from torch import nn

from soar.environment import environment
from soar.evaluation.checks import (
    SharedAttacks,
    budgets,
    climb,
    comparisons,
    consistency,
    gradients,
    taylor,
    worst_case,
)
from soar.evaluation.diagnosis import Check, CheckResult, Diagnosis
from soar.evaluation.examples import Data
from soar.evaluation.features import find_features
from soar.evaluation.first_look import NO_CORRECT
from soar.evaluation.inspection import SpareOutputsWarning, spare_outputs
from soar.evaluation.target import COMPILED_AGAIN, Target
from soar.model_state import require_module, uncompiled
from soar.progress import Mode
from soar.threat import Threat
from soar.weights import Weights

CHECKS: dict[str, tuple[Check, Callable[[SharedAttacks], CheckResult]]] = {
    check.name: (check, examine)
    for check, examine in (
        (consistency.CONSISTENCY, consistency.examine),
        (gradients.GRADIENTS, gradients.examine),
        (comparisons.LOSSES, comparisons.examine_losses),
        (comparisons.TEMPERATURE, comparisons.examine_temperature),
        (taylor.TAYLOR, taylor.examine),
        (climb.CLIMB, climb.examine),
        (budgets.BUDGETS, budgets.examine),
        (comparisons.BLACK_BOX, comparisons.examine_black_box),
        # The last one, since it looks at what all others have run.
        (worst_case.WORST_CASE, worst_case.examine),
    )
}
"""every check by its name, the cheap ones first"""


def diagnose(
    model: nn.Module,
    data: Data,
    threat: Threat,
    *,
    sources: Mapping[str, nn.Module] | None = None,
    features: str | None = None,
    seed: int = 0,
    batch_size: int = 128,
    name: str = "model",
    data_name: str = "data",
    progress: Mode = "quiet",
    journal: Path | None = None,
    weights: Weights | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> Diagnosis:
    """Check whether a model is robust or masks its gradients; the most severe finding comes first.

    Attacks of one kind are compared with attacks of another: where those that need gradients fail and those
    that do not need them succeed, the gradients are masked. A few hundred examples are enough.

    Args:
        model: any module that maps images in [0, 1] to logits
        data: a split, images (uint8, or float in [0, 1]) and labels, or a torch Dataset or DataLoader of them
        threat: what the adversary may do
        sources: other networks, by name, whose adversarial points are tried on this one
        features: the name of the module whose output is taken for the model's features, such as "layer4"; by
            default they are what its last layer takes
        seed: seed of all random numbers
        batch_size: how many examples are evaluated at once
        name: what to call the model in the record
        data_name: what to call the data in the record
        progress: "auto", "live", "plain" or "quiet"
        journal: a file for what is found on the way; a second call with the same arguments goes on from it
        weights: what the model was filled with, for the record
        say: takes a line for the reader after every check

    Raises:
        UserError: if the data, the model's outputs or the features cannot be used

    >>> import torch
    >>> from soar.threat import Linf
    >>> x, y = torch.tensor([[[[0.9, 0.2]]], [[[0.45, 0.7]]]]), torch.tensor([0, 1])
    >>> diagnose(nn.Flatten(), (x, y), Linf("0.1")).verdict
    'sound'
    """
    target = Target(
        model=model,
        data=data,
        threat=threat,
        seed=seed,
        batch_size=batch_size,
        progress=progress,
        name=name,
        data_name=data_name,
        weights=weights,
    )
    with uncompiled(model, COMPILED_AGAIN):
        return diagnose_target(target, sources=sources, features=features, journal=journal, say=say)


def diagnose_target(
    target: Target,
    *,
    sources: Mapping[str, nn.Module] | None = None,
    features: str | None = None,
    journal: Path | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> Diagnosis:
    """Run all checks on a target as `diagnose` does.

    Args:
        target: the model, its examples and the threat
        sources: other networks, by name, whose adversarial points are tried on this one
        features: the name of the module whose output is taken for the model's features, such as "layer4"; by
            default they are what its last layer takes
        journal: a file for what is found on the way
        say: takes a line for the reader after every check

    Raises:
        UserError: if the model's outputs cannot be evaluated, or the model has no such features
    """
    for source in (sources or {}).values():
        require_module(source)
    if features is not None:
        # A wrong name is told before the attacks begin.
        find_features(target.model, target.x[:2], features)
    spare = spare_outputs(target.logits.shape[1], target.labels, target.class_names)
    if spare is not None:
        # The line that the user wrote is the one that called `diagnose`.
        warnings.warn(str(spare), SpareOutputsWarning, stacklevel=3)
    shared = SharedAttacks(target=target, sources=sources or {}, journal=journal, features=features)
    results = []
    for check, examine in CHECKS.values():
        # All but this one attack or differentiate at images that are correctly classified.
        can_run = check is consistency.CONSISTENCY or bool(target.correct.any())
        result = examine(shared) if can_run else check.skipped(NO_CORRECT)
        say(f"{check.name}: {result.finding}")
        results.append(result)
    return Diagnosis(
        model=target.name,
        data=target.data_name,
        threat=target.threat,
        examples=len(target),
        seed=target.seed,
        checks=tuple(results),
        environment=environment(),
        weights=target.weights,
    )
