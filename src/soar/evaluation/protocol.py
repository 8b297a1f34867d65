"""Run the attacks of a plan on a target, and those that follow where what was found calls for them."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path

from torch import Tensor

from soar.distributed import current
from soar.evaluation.assess import assess, open_journal
from soar.evaluation.assessment import WORST, Assessment
from soar.evaluation.first_look import first_look, reason
from soar.evaluation.inspection import SpareOutputsWarning
from soar.evaluation.journal import Journal
from soar.evaluation.suites import Plan, Wanted, resolve
from soar.evaluation.target import Target


def evaluate_target(
    target: Target,
    attacks: Wanted = "auto",
    *,
    journal: Journal | Path | None = None,
    fast: bool = True,
    check: bool = True,
    spared: Tensor | None = None,
) -> Assessment:
    """Attack a target as `evaluate` does, and return its clean and robust accuracy.

    Args:
        target: the model, its examples and the threat
        attacks: a suite such as "auto" or "standard", an attack, or a list of them
        journal: a file for what is found on the way
        fast: attack a faster copy of the model
        check: add a first look at gradient masking, which costs next to nothing
        spared: which examples need no attack, since they are known to be robust

    Raises:
        UserError: if an attack or the model's outputs cannot be used
    """
    plan = resolve(attacks, target.threat.norm_name)
    journal = open_journal(target, plan, journal) if isinstance(journal, Path) else journal
    always = [one for one in plan if one.condition == "always"]
    chosen = Choice(target, plan) if len(always) < len(plan) else None
    found = assess(target, always, journal=journal, fast=fast, follow_up=chosen, spared=spared)
    if chosen is not None:
        found = replace(found, protocol=current().from_main(chosen.reason))
    for note in found.notes:
        if note.kind == "outputs" and current().is_main:
            # The line that the user wrote is the one that called `evaluate`.
            warnings.warn(str(note), SpareOutputsWarning, stacklevel=3)
    return replace(found, diagnosis=first_look(target, found)) if check else found


class Choice:
    """Which attacks of a plan follow those that are always run, by what these have found.

    Args:
        target: what is evaluated
        plan: all attacks
    """

    def __init__(self, target: Target, plan: Plan) -> None:
        self.target, self.plan, self.reason = target, plan, ""

    def __call__(self, found: Assessment) -> Plan:
        """Return the attacks that follow, and keep the reason."""
        before = " and ".join(one.label for one in found.attacks)
        look = first_look(self.target, found)
        is_random = any(note.kind == "random" for note in found.notes)
        if not bool(found.survivors(WORST).any()):
            self.reason = f"stopped after {before}: no image is left"
        elif look.verdict == "sound" and not is_random:
            self.reason = f"stopped after {before}: no check for gradient masking counts against the model"
        else:
            rest = [one for one in self.plan if one.condition == ("random" if is_random else "unsound")]
            labels = ", ".join(one.attack.label for one in rest)
            self.reason = f"went on from {before} to {labels}, because the model looks {reason(look)}"
            return rest
        return []
