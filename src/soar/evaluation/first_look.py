"""What an assessment and the gradients at a few images show about gradient masking."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import torch

from soar.errors import first_line
from soar.evaluation.assessment import Assessment, AttackResult
from soar.evaluation.checks import comparisons, consistency, gradients
from soar.evaluation.diagnosis import CheckResult, Diagnosis
from soar.evaluation.interval import counted, share_of
from soar.evaluation.target import Target
from soar.model_state import untouched
from soar.text import percent

# Shares of this many examples are known to within nine points, and their gradients cost less than PGD-3.
MOST_EXAMPLES = 128
# Shorter attacks leave what a longer one would break, so that a black box may beat them on any network.
LEAST_STEPS = 20
WITHOUT_GRADIENTS = ("Square", "SimBA", "Transfer")
NO_CORRECT = "no clean image is correctly classified"
_ADVICE = "soar diagnose RUN"


def first_look(target: Target, found: Assessment) -> Diagnosis:
    """Look for masking with what an evaluation has found already, and the gradients at a few images.

    No attack is run; at most four forward and three backward passes over 128 images are made. The rules are
    those of the full diagnosis. It never raises, since a look at a result must not cost the result.

    Args:
        target: the model that was evaluated, left as it was, and its examples
        found: what the evaluation found
    """
    checks = [
        consistency.judge(found.notes),
        _gradients(target),
        _by_loss(found),
        _by_black_box(found),
    ]
    return Diagnosis(
        model=found.model,
        data=found.data,
        threat=found.threat,
        examples=len(found),
        seed=found.seed,
        checks=tuple(one for one in checks if one is not None),
        is_complete=False,
        environment=found.environment,
        weights=found.weights,
    )


def one_line(diagnosis: Diagnosis) -> str:
    """Return in one line why the model is not called sound; nothing where it is.

    >>> from soar.evaluation.assessment import Note
    >>> from soar.threat import Linf
    >>> odd = consistency.judge([Note("random", "model: got outputs that differ between two passes")])
    >>> found = Diagnosis(model="", data="", threat=Linf("0.1"), examples=9, checks=(odd,))
    >>> one_line(found)[:70]
    'suspicious: the model is randomized, so an attack on a single output c'
    """
    if diagnosis.verdict == "sound" or not diagnosis.checks:
        return ""
    following = "next: " + "; ".join(diagnosis.advice[:1]) if diagnosis.is_complete else f"run {_ADVICE}"
    return f"{reason(diagnosis)}; {following}"


def reason(diagnosis: Diagnosis) -> str:
    """Return the verdict with the most severe finding, such as "masked: the gradient is zero ..."."""
    sentence = diagnosis.checks[0].sentence.split(". ")[0].rstrip(".")
    # The name of an attack, PGD-20 for one, keeps its capitals.
    if sentence[1:2].islower() or sentence[1:2] == " ":
        sentence = sentence[:1].lower() + sentence[1:]
    return f"{diagnosis.verdict}: {sentence}"


def _gradients(target: Target) -> CheckResult:
    """Measure the gradients at those of the first images that are correctly classified."""
    try:
        # Numbered anew: random points go by the place among these images.
        few = replace(target, data=(target.images[:MOST_EXAMPLES], target.labels[:MOST_EXAMPLES]))
        with untouched(few.model):
            correct = few.correct
        if not bool(correct.any()):
            return gradients.GRADIENTS.skipped(NO_CORRECT)
        return gradients.judge(gradients.gradient_numbers(few.subset(correct)))
    except Exception as error:  # whatever a model raises that was evaluated without gradients
        return gradients.GRADIENTS.skipped(first_line(error))


def _by_loss(found: Assessment) -> CheckResult | None:
    """Compare attacks that differ in their loss only, where there are such."""
    pairs = [
        (one, other)
        for one, other in product(found.attacks, found.attacks)
        if _loss(one) == "ce"
        and _loss(other) in ("margin", "dlr")
        and _but_for_loss(one) == _but_for_loss(other)
    ]
    if not pairs:
        return None
    ce, margin = max(pairs, key=lambda pair: share_of(pair[0].robust) - share_of(pair[1].robust))
    judged, difference = comparisons.LIMITS.compare(ce.robust, margin.robust)
    numbers = {ce.label: share_of(ce.robust), margin.label: share_of(margin.robust), **difference}
    sentence = f"{margin.label} leaves {percent(share_of(margin.robust))} where {ce.label} leaves"
    sentence += f" {percent(share_of(ce.robust))}"
    hides = "" if judged.finding == "sound" else ", so the cross-entropy hides a way that the network has"
    return comparisons.LOSSES.result(judged, f"{sentence}{hides}.", numbers, advice=_ADVICE)


def _by_black_box(found: Assessment) -> CheckResult | None:
    """Count what attacks without gradients break of what attacks with gradients left, where both were run."""
    white = [one for one in found.attacks if not _needs_no_gradients(one)]
    black = [one for one in found.attacks if _needs_no_gradients(one)]
    long = [one for one in white if one.parameters.get("steps", 0) >= LEAST_STEPS]
    if not black or not long:
        return None
    left = torch.stack([found.correct, *(one.robust for one in white)]).all(dim=0)
    worst = max(black, key=lambda one: share_of(left & ~one.robust))
    broken, low, high = counted(left & ~worst.robust)
    limits, rule = comparisons.BLACK_BOX_LIMITS, ""
    if all(_loss(one) == "ce" for one in long):
        # On any network attacks on the cross-entropy alone leave as much as the other check allows.
        limits = comparisons.LIMITS
        rule = f"examples that cross-entropy attacks leave and others break: {limits.rule}"
    judged = limits.judge(broken, low)
    sentence = (
        f"After all attacks with gradients, {worst.label} breaks another {percent(broken)} of all images"
    )
    sentence += "." if judged.finding == "sound" else " without any, so the gradients lead nowhere."
    numbers: dict[str, float | int | str | None] = {"white-box": share_of(left), worst.label: broken}
    numbers |= {"low": low, "high": high}
    return comparisons.BLACK_BOX.result(judged, sentence, numbers, advice=_ADVICE, rule=rule)


def _needs_no_gradients(attack: AttackResult) -> bool:
    """Decide by the attack's name, or by its passes where it is an attack of another library."""
    only_forward = bool(attack.forward.any()) and not bool(attack.backward.any())
    return attack.name in WITHOUT_GRADIENTS or (attack.name == "ExternalAttack" and only_forward)


def _loss(result: AttackResult) -> Any:
    return result.parameters.get("loss")


def _but_for_loss(result: AttackResult) -> Any:
    """Return what must agree for two attacks to differ in their loss only.

    In AutoAttack, where each gets what the ones before have left, the second differs from the first in its
    targets too; the thresholds come from what it reports.
    """
    left_out = {"loss", "targets"} if result.survivors_only else {"loss"}
    others = {name: value for name, value in result.parameters.items() if name not in left_out}
    return result.name, others, result.survivors_only, result.samples
