"""Set PGD on the cross-entropy against everything that was tried, and name what makes the difference."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from soar.evaluation.checks import APGD_CE, PGD_CE, WHITE_BOX, SharedAttacks, Tried
from soar.evaluation.checks.comparisons import AGAINST_HIDING
from soar.evaluation.diagnosis import AdviceKind, Check, CheckResult, Thresholds
from soar.evaluation.interval import share_of
from soar.text import percent
from soar.threat import L1, Threat

# Attacks on honest networks leave up to 10 points less than PGD-20 if enough of them are joined. Far below,
# PGD-20 reports a robustness that is not there, for whatever reason.
FAR = Thresholds(masked=0.12, halved=0.06)
WORST_CASE = Check(
    "worst case",
    "PGD on the cross-entropy against everything that was tried",
    f"all attacks within eps together leave less than {PGD_CE.label} on the cross-entropy, in l1 than"
    f" {APGD_CE.label}: {FAR.rule}",
)
NEEDS_NO_GRADIENTS = ("Square", "SimBA", "Transfer")

Cause = Literal["loss", "budget", "search", "gradients"]
"""what an attack has that PGD-20 on the cross-entropy does not"""
_MEANING: dict[Cause, str] = {
    "loss": "the same search on another loss finds it, so the loss hides the way and not the network",
    "budget": "more steps or starts find it, so the usual search had not converged",
    "search": "a search of another kind finds it, with momentum, targets or other directions",
    "gradients": "only attacks without gradients find it, so the gradients lead nowhere",
}
_ADVICE: dict[Cause, tuple[AdviceKind, ...]] = {
    "loss": ("scaling", "autoattack"),
    "budget": ("restarts", "average", "autoattack"),
    "search": ("adaptive", "straight through", "autoattack"),
    "gradients": AGAINST_HIDING,
}


def cause(one: Tried) -> Cause:
    """Return what an attack has that PGD-20 on the cross-entropy does not.

    >>> steps = {"steps": 20, "restarts": 1, "loss": "margin"}
    >>> [cause(Tried("", name, steps, torch.ones(1))) for name in ("PGD", "APGD", "Square")]
    ['loss', 'search', 'gradients']
    """
    if one.name in NEEDS_NO_GRADIENTS:
        return "gradients"
    if one.name not in ("PGD", "FGSM"):
        return "search"
    is_longer = one.parameters.get("steps", 1) > PGD_CE.steps or one.parameters.get("restarts", 1) > 1
    if one.is_softened or one.parameters.get("loss", "ce") != "ce":
        # With both it cannot be told which of them helped.
        return "search" if is_longer else "loss"
    return "budget"


def judge(base: Tried, others: Sequence[Tried]) -> CheckResult:
    """Compare an attack on the cross-entropy with the worst case of all attacks.

    The cause of the difference is the first of loss, budget, search and missing gradients that alone makes
    half of it. They are in the order of how little has to change, since a search that is better in every
    respect also finds what another loss would.

    Args:
        base: PGD on the cross-entropy, or what comes nearest to it
        others: all other attacks within the same threat
    """
    before, everything = base.robust, _left(base.robust, others)
    judged, numbers = FAR.compare(before, everything)
    gains = {name: share_of(before & ~_left(before, _of(others, name))) for name in _MEANING}
    total = share_of(before & ~everything)
    named = next(
        (name for name, gain in gains.items() if 2 * gain >= total), max(gains, key=lambda name: gains[name])
    )
    sentence = f"{base.label} leaves {percent(share_of(before))}, all attacks together"
    sentence += f" {percent(share_of(everything))}"
    numbers = {base.label: share_of(before), "all attacks": share_of(everything), **numbers}
    numbers |= {f"gained by {name}": gain for name, gain in gains.items()}
    if judged.finding == "sound":
        return WORST_CASE.result(judged, f"{sentence}: no more apart than for honest networks.", numbers)
    strongest = min(_of(others, named), key=lambda one: share_of(before & one.robust))
    sentence += f" ({strongest.label} {percent(share_of(before & strongest.robust))}): {_MEANING[named]}."
    return WORST_CASE.result(judged, sentence, numbers | {"cause": named}, advice=_ADVICE[named])


def bases(threat: Threat) -> tuple[str, ...]:
    """Return the names of the attacks that others are compared with.

    In l1 PGD is none of them: on every network it leaves far more than Auto-PGD, which begins in wider balls.
    """
    return ("APGD",) if isinstance(threat, L1) else ("PGD", "APGD")


def examine(shared: SharedAttacks) -> CheckResult:
    """Compare PGD with all attacks that any check has run so far, and those of `WHITE_BOX`.

    Args:
        shared: the attacks on the target
    """
    for attack in WHITE_BOX:
        shared.robust(attack)
    if shared.is_random:
        return WORST_CASE.skipped("the outputs are random, and in the worst of many attacks luck adds up")
    usual = PGD_CE if "PGD" in bases(shared.target.threat) else APGD_CE
    base = next(one for one in shared.tried if one.label == usual.label)
    return judge(base, [one for one in shared.tried if one is not base])


def _of(tried: Sequence[Tried], name: Cause) -> list[Tried]:
    return [one for one in tried if cause(one) == name]


def _left(before: Tensor, tried: Sequence[Tried]) -> Tensor:
    return torch.stack([before, *(one.robust for one in tried)]).all(dim=0)
