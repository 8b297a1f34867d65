"""Robust accuracy at several radii, in one evaluation for the whole curve."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch

from soar.errors import UserError
from soar.evaluation.assessment import WORST, Assessment
from soar.evaluation.compare import rows_in_common
from soar.evaluation.protocol import evaluate_target
from soar.evaluation.suites import Wanted
from soar.evaluation.target import Target
from soar.threat import Threat


def evaluate_radii(
    target: Target,
    threats: Sequence[Threat],
    attacks: Wanted = "auto",
    *,
    journal: Path | None = None,
    fast: bool = True,
    check: bool = True,
) -> tuple[Assessment, ...]:
    """Attack a target within several balls, the largest first.

    What survives in a ball survives in every smaller one, which holds no other points, and costs no passes
    there: only what was broken is attacked again. So an example is attacked to the end of the budget once, at
    the largest radius that it withstands, and what is broken at one radius is broken at all larger ones.

    Args:
        target: the model and its examples; its own threat is not used
        threats: balls of one norm, in any order
        attacks: a suite such as "auto" or "standard", an attack, or a list of them
        journal: a file for what is found on the way, one for all radii
        fast: attack a faster copy of the model
        check: add a first look at gradient masking

    Returns:
        One assessment per threat, in the order they were given.

    Raises:
        UserError: if the threats are not of one norm or one is there twice
    """
    names = [str(one) for one in threats]
    if len({one.norm_name for one in threats}) != 1 or len(set(names)) < len(names):
        raise UserError(f"threat: got {', '.join(names)}, expected different radii of one norm (flag --eps)")
    found: dict[str, Assessment] = {}
    spared = torch.zeros(len(target), dtype=torch.bool, device="cpu")
    for threat in sorted(threats, key=lambda one: one.eps, reverse=True):
        at = replace(target, threat=threat)
        result = evaluate_target(at, attacks, journal=journal, fast=fast, check=check, spared=spared)
        spared = result.survivors(WORST)[rows_in_common(target.index, result.index)[1]]
        found[str(threat)] = result
    return tuple(found[name] for name in names)
