"""What can be said about gradient masking from an assessment and a few slopes."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import torch

from soar.errors import first_line
from soar.evaluation.assessment import Assessment, AttackResult
from soar.evaluation.checks import black_box, consistency, gradients, losses
from soar.evaluation.checks.judgment import counted, not_made, share_of
from soar.evaluation.checks.slopes import gradient_numbers
from soar.evaluation.diagnosis import Diagnosis, Evidence
from soar.evaluation.target import Target
from soar.model_state import untouched
from soar.text import percent

# Shares of this many examples are known to within nine points, and their slopes cost less than PGD-3.
MOST_EXAMPLES = 128
# Shorter attacks leave what a longer one would break, so that a black box may beat them on any network.
LEAST_STEPS = 20
WITHOUT_GRADIENTS = ("Square", "SimBA", "Transfer")


def first_look(target: Target, found: Assessment) -> Diagnosis:
    """Look for masking with what an evaluation has found already, and the slopes at a few images.

    No attack is run; at most four passes forward and three backward over 128 images are made. The rules are
    those of the full diagnosis. It never raises, since a look at a result must not cost the result.

    Args:
        target: the model that was evaluated, left as it was, and its examples
        found: what the evaluation found
    """
    evidence = [
        consistency.judge(found.notes),
        _slopes(target),
        _by_loss(found),
        _by_black_box(found),
    ]
    return Diagnosis(
        model=found.model,
        data=found.data,
        threat=found.threat,
        examples=len(found),
        seed=found.seed,
        evidence=tuple(one for one in evidence if one is not None),
        is_whole=False,
        environment=found.environment,
        weights=found.weights,
    )


def one_line(diagnosis: Diagnosis) -> str:
    """Return in one line why the model is not called sound; nothing where it is.

    >>> from soar.evaluation.note import Note
    >>> from soar.threat import Linf
    >>> odd = consistency.judge([Note("random", "model: got answers that differ when asked twice")])
    >>> found = Diagnosis(model="", data="", threat=Linf("0.1"), examples=9, evidence=(odd,))
    >>> one_line(found)[:70]
    'suspicious: the model is randomized, so an attack that asks only once '
    """
    if diagnosis.verdict == "sound" or not diagnosis.evidence:
        return ""
    said = diagnosis.evidence[0].sentence.split(". ")[0].rstrip(".")
    # The name of an attack, PGD-20 for one, keeps its capitals.
    said = said[:1].lower() + said[1:] if said[1:2].islower() or said[1:2] == " " else said
    following = (
        "run soar diagnose RUN" if not diagnosis.is_whole else "next: " + "; ".join(diagnosis.advice[:1])
    )
    return f"{diagnosis.verdict}: {said}; {following}"


def _slopes(target: Target) -> Evidence:
    """Look at the slopes at those of the first images that are correctly classified."""
    try:
        # Numbered anew: random points go by the place among these images.
        few = replace(target, data=(target.images[:MOST_EXAMPLES], target.labels[:MOST_EXAMPLES]))
        with untouched(few.model):
            correct = few.correct
        if not bool(correct.any()):
            return not_made(
                gradients.CHECK, gradients.TITLE, gradients.RULE, "no clean image is correctly classified"
            )
        numbers = gradient_numbers(few.subset(correct))
    except Exception as error:  # whatever a model raises that was evaluated without gradients
        reason = first_line(error)
        return not_made(gradients.CHECK, gradients.TITLE, gradients.RULE, reason)
    return gradients.judge(numbers)


def _by_loss(found: Assessment) -> Evidence | None:
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
    compared = losses.LIMITS.compare(ce.robust, margin.robust)
    judged = compared.judged
    sentence = f"{margin.label} leaves {percent(share_of(margin.robust))} where {ce.label} leaves"
    sentence += f" {percent(share_of(ce.robust))}"
    sentence += (
        "." if judged.finding == "sound" else ", so the cross-entropy hides a way that the network has."
    )
    return Evidence(
        check=losses.CHECK,
        title=losses.TITLE,
        finding=judged.finding,
        sentence=sentence,
        rule=losses.RULE,
        numbers={
            ce.label: share_of(ce.robust),
            margin.label: share_of(margin.robust),
            "difference": compared.difference,
            "low": compared.low,
            "high": compared.high,
        },
        excess=judged.excess,
        advice="" if judged.finding == "sound" else "soar diagnose RUN",
    )


def _needs_no_gradients(attack: AttackResult) -> bool:
    """Tell from its name, or from its passes where it is an attack of somebody else's."""
    asked_only = bool(attack.forward.any()) and not bool(attack.backward.any())
    return attack.name in WITHOUT_GRADIENTS or (attack.name == "Foreign" and asked_only)


def _by_black_box(found: Assessment) -> Evidence | None:
    """Count what attacks without gradients break of what attacks with gradients left, where both were run."""
    white = [one for one in found.attacks if not _needs_no_gradients(one)]
    black = [one for one in found.attacks if _needs_no_gradients(one)]
    long = [one for one in white if one.parameters.get("steps", 0) >= LEAST_STEPS]
    if not black or not long:
        return None
    left = torch.stack([found.correct, *(one.robust for one in white)]).all(dim=0)
    worst = max(black, key=lambda one: share_of(left & ~one.robust))
    broken, low, high = counted(left & ~worst.robust)
    # On any network attacks on the cross-entropy alone leave more to be found: what the other check allows.
    has_margin = any(_loss(one) != "ce" for one in long)
    limits, rule = (
        (black_box.LIMITS, black_box.RULE)
        if has_margin
        else (
            losses.LIMITS,
            f"examples that cross-entropy attacks leave and others break: {losses.LIMITS.rule}",
        )
    )
    judged = limits.judge(broken, low)
    sentence = (
        f"After all attacks with gradients, {worst.label} breaks another {percent(broken)} of all images"
    )
    sentence += "." if judged.finding == "sound" else " without any, so the gradients lead nowhere."
    return Evidence(
        check=black_box.CHECK,
        title=black_box.TITLE,
        finding=judged.finding,
        sentence=sentence,
        rule=rule,
        numbers={"white-box": share_of(left), worst.label: broken, "low": low, "high": high},
        excess=judged.excess,
        advice="" if judged.finding == "sound" else "soar diagnose RUN",
    )


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
