"""Is a model robust, or does it only hide its gradients? Seven checks and a verdict."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from pathlib import Path

from torch import nn

from soar import values
from soar.environment import environment
from soar.evaluation.diagnosis import Diagnosis, Evidence
from soar.evaluation.evidence import (
    black_box,
    budgets,
    consistency,
    gradients,
    losses,
    taylor,
    temperature,
)
from soar.evaluation.examples import Examples, require_some
from soar.evaluation.inspection import SpareOutputsWarning, spare_outputs
from soar.evaluation.probe import Probe
from soar.inputs import check_batch_size
from soar.model_state import require_module
from soar.prediction import checked_logits
from soar.progress import Mode
from soar.threat import Threat, require_threat
from soar.weights import Weights

CHECKS: dict[str, Callable[[Probe], Evidence]] = {
    "consistency": consistency.examine,
    "gradients": gradients.examine,
    "losses": losses.examine,
    "temperature": temperature.examine,
    "taylor": taylor.examine,
    "budgets": budgets.examine,
    "black box": black_box.examine,
}
"""every check by its name, the cheap ones first"""


def diagnose(
    model: nn.Module,
    data: Examples,
    threat: Threat,
    *,
    sources: Mapping[str, nn.Module] | None = None,
    seed: int = 0,
    batch_size: int = 128,
    name: str = "model",
    data_name: str = "data",
    progress: Mode = "quiet",
    journal: Path | None = None,
    weights: Weights | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> Diagnosis:
    """Return whether a model is robust or hides its gradients, with all evidence, the strongest first.

    Attacks of one kind are set against attacks of another: where those that need gradients fail and those
    that do not need them succeed, the gradients were hidden. A few hundred examples are enough.

    Args:
        model: any module that maps images in [0, 1] to logits
        data: a split, images (uint8, or float in [0, 1]) and labels, or a torch Dataset or DataLoader of them
        threat: what the adversary may do
        sources: other networks, by name, whose adversarial points are tried on this one
        seed: seed of all random numbers
        batch_size: how many examples are evaluated at once
        name: what to call the model in the record
        data_name: what to call the data in the record
        progress: "auto", "live", "plain" or "quiet"
        journal: a file for what is found on the way; a second call with the same arguments goes on from it
        weights: what the model was filled with, for the record
        say: takes a line for the reader after every check

    Raises:
        UserError: if the data or the model's answers make no sense

    >>> import torch
    >>> from soar.threat import Linf
    >>> x, y = torch.tensor([[[[0.9, 0.2]]], [[[0.45, 0.7]]]]), torch.tensor([0, 1])
    >>> diagnose(nn.Flatten(), (x, y), Linf("0.1")).verdict
    'sound'
    """
    require_module(model)
    require_threat(threat)
    check_batch_size(batch_size)
    values.whole(seed, "seed")
    values.text(name, "name")
    values.text(data_name, "data_name")
    for source in (sources or {}).values():
        require_module(source)
    probe = Probe(
        model=model,
        data=data,
        threat=threat,
        seed=seed,
        batch_size=batch_size,
        sources=sources or {},
        progress=progress,
        journal=journal,
    )
    require_some(probe.examples)
    logits = checked_logits(probe.logits, len(probe.labels))
    spare = spare_outputs(logits.shape[1], probe.examples.labels)
    if spare is not None:
        warnings.warn(str(spare), SpareOutputsWarning, stacklevel=2)
    evidence = []
    for check, examine in CHECKS.items():
        found = examine(probe)
        say(f"{check}: {found.finding}")
        evidence.append(found)
    return Diagnosis(
        model=name,
        data=data_name,
        threat=threat,
        examples=len(probe.labels),
        seed=seed,
        evidence=tuple(evidence),
        environment=environment(),
        weights=weights,
    )
