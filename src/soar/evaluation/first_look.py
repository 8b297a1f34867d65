"""What an assessment and the gradients at a few images show about gradient masking."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import torch
from torch import Tensor

from soar.errors import first_line
from soar.evaluation.advice import as_command, as_python
from soar.evaluation.assessment import Assessment, AttackResult
from soar.evaluation.checks import Tried, comparisons, consistency, gradients, taylor, worst_case
from soar.evaluation.checks.lost import lost_in
from soar.evaluation.diagnosis import AdviceKind, CheckResult, Diagnosis, Judgment, severity
from soar.evaluation.interval import counted, share_of
from soar.evaluation.target import Target
from soar.model_state import untouched
from soar.text import percent

# Shares of this many examples are known to within nine points, and their gradients cost less than PGD-5.
MOST_EXAMPLES = 128
# Shorter attacks leave what a longer one would break, so that a black box may beat them on any network.
LEAST_STEPS = 20
NO_CORRECT = "no clean image is correctly classified"


def first_look(target: Target, found: Assessment) -> Diagnosis:
    """Look for masking with what an evaluation has found already, and the gradients at a few images.

    No attack is run; at most six forward and five backward passes over 128 images are made. The rules are
    those of the full diagnosis: what it would not count does not count here. It never raises, since a look at
    a result must not cost the result.

    Args:
        target: the model that was evaluated, left as it was, and its examples
        found: what the evaluation found
    """
    checks = [
        consistency.judge(found.notes),
        *_at_images(target, found),
        _by_loss(found),
        _by_black_box(found),
        _by_worst_case(found),
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


def one_line(diagnosis: Diagnosis, target: str = "") -> str:
    """Return in one line why the model is not called sound, and what to do next; nothing where it is.

    Args:
        diagnosis: what was found
        target: the run folder or the flags that name the model, for a command; without it the line is for
            Python

    >>> from soar.evaluation.assessment import Note
    >>> from soar.threat import Linf
    >>> odd = consistency.judge([Note("random", "model: got outputs that differ between two passes")])
    >>> found = Diagnosis(model="", data="", threat=Linf("0.1"), examples=9, checks=(odd,), is_complete=False)
    >>> one_line(found, "runs/a")[:70]
    'suspicious: the model is randomized, so an attack on a single output c'
    >>> one_line(found, "runs/a").partition("; ")[2]
    'run all checks: soar diagnose runs/a'
    """
    if diagnosis.verdict == "sound" or not diagnosis.checks:
        return ""
    kind: AdviceKind = next(iter(diagnosis.kinds), "diagnose") if diagnosis.is_complete else "diagnose"
    following = (
        as_command(kind, target, (), diagnosis.module) if target else as_python(kind, diagnosis.module)
    )
    close = " (at the threshold: more images would decide)" if diagnosis.is_at_threshold else ""
    return f"{reason(diagnosis)}{close}; {following}"


def reason(diagnosis: Diagnosis) -> str:
    """Return the verdict with the most severe finding, such as "masked: the gradient is zero ..."."""
    sentence = diagnosis.checks[0].sentence.split(". ")[0].rstrip(".")
    # The name of an attack, PGD-20 for one, keeps its capitals.
    if sentence[1:2].islower() or sentence[1:2] == " ":
        sentence = sentence[:1].lower() + sentence[1:]
    return f"{diagnosis.verdict}: {sentence}"


def _at_images(target: Target, found: Assessment) -> list[CheckResult]:
    """Measure gradients, and one step along them, at the correctly classified among the first images."""
    try:
        # Numbered anew: random points go by the place among these images.
        few = replace(target, data=(target.stored[:MOST_EXAMPLES], target.labels[:MOST_EXAMPLES]))
        with untouched(few.model):
            correct = few.correct
        if not bool(correct.any()):
            return [gradients.GRADIENTS.skipped(NO_CORRECT)]
        few = few.subset(correct)
        numbers = gradients.gradient_numbers(few)
        module = lost_in(few) if numbers.margin_zero > 0 else ""
        judged = gradients.judge(numbers, gain=_gain(found), way=_way(found), module=module)
        return [judged, taylor.judge(taylor.step_numbers(few))]
    except Exception as error:  # whatever a model raises that was evaluated without gradients
        return [gradients.GRADIENTS.skipped(first_line(error))]


def _gain(found: Assessment) -> Judgment | None:
    """Return whether attacks gain by another loss, or None if no two can be compared."""
    gains = [comparisons.LIMITS.compare(one.robust, other.robust)[0] for one, other in _pairs(found)]
    return max(gains, key=severity, default=None)


def _way(found: Assessment) -> Judgment | None:
    """Return whether attacks without gradients break what the others leave, or None if none was run."""
    left, black = _left_and_black(found)
    if not black:
        return None
    return max(
        (comparisons.BLACK_BOX_LIMITS.judge(*counted(left & ~one.robust)) for one in black), key=severity
    )


def _by_loss(found: Assessment) -> CheckResult | None:
    """Compare attacks that differ in their loss only, where there are such."""
    pairs = _pairs(found)
    if not pairs:
        return None
    ce, margin = max(pairs, key=lambda pair: share_of(pair[0].robust) - share_of(pair[1].robust))
    judged, difference = comparisons.LIMITS.compare(ce.robust, margin.robust)
    numbers = {ce.label: share_of(ce.robust), margin.label: share_of(margin.robust), **difference}
    sentence = f"{margin.label} leaves {percent(share_of(margin.robust))} where {ce.label} leaves"
    sentence += f" {percent(share_of(ce.robust))}"
    if judged.finding != "sound":
        # In AutoAttack the second attack has targets too, so that it may be these which help.
        is_loss = ce.parameters.get("targets", 0) == margin.parameters.get("targets", 0)
        what = "the cross-entropy hides a way" if is_loss else "an attack on the cross-entropy misses a way"
        sentence += f", so {what} that the network has"
    return comparisons.LOSSES.result(judged, f"{sentence}.", numbers, advice=("scaling", "autoattack"))


def _pairs(found: Assessment) -> list[tuple[AttackResult, AttackResult]]:
    """Return the attacks on the cross-entropy, each with one that differs in its loss only."""
    return [
        (one, other)
        for one, other in product(_on_cross_entropy(found), found.attacks)
        if _loss(other) in ("margin", "dlr") and _but_for_loss(one) == _but_for_loss(other)
    ]


def _by_black_box(found: Assessment) -> CheckResult | None:
    """Count what attacks without gradients break of what attacks with gradients left, where both were run."""
    left, black = _left_and_black(found)
    long = [
        one
        for one in found.attacks
        if not _needs_no_gradients(one) and one.parameters.get("steps", 0) >= LEAST_STEPS
    ]
    if not black or not long:
        return None
    worst = max(black, key=lambda one: share_of(left & ~one.robust))
    broken, low, high = counted(left & ~worst.robust)
    limits, rule = comparisons.BLACK_BOX_LIMITS, ""
    if all(_loss(one) == "ce" for one in long):
        # On any network attacks on the cross-entropy alone leave as much as the other check allows.
        limits = comparisons.LIMITS
        rule = f"examples that cross-entropy attacks leave and others break: {limits.rule}"
    judged = limits.judge(broken, low, high)
    sentence = (
        f"After all attacks with gradients, {worst.label} breaks another {percent(broken)} of all images"
    )
    sentence += "." if judged.finding == "sound" else " without any, so the gradients lead nowhere."
    numbers: dict[str, float | int | str | None] = {"white-box": share_of(left), worst.label: broken}
    numbers |= {"low": low, "high": high}
    return comparisons.BLACK_BOX.result(
        judged, sentence, numbers, advice=comparisons.AGAINST_HIDING, rule=rule
    )


def _by_worst_case(found: Assessment) -> CheckResult | None:
    """Compare what comes nearest to PGD-20 on the cross-entropy with all attacks, if that can be done."""
    bases = [
        one
        for one in _on_cross_entropy(found)
        if one.name in worst_case.bases(found.threat) and one.parameters.get("steps", 0) >= LEAST_STEPS
    ]
    # Of random outputs the worst of many attacks counts luck.
    if not bases or any(note.kind in ("random", "state") for note in found.notes):
        return None
    nearest = min(bases, key=lambda one: one.parameters["steps"] * one.parameters.get("restarts", 1))
    tried = {id(one): Tried(one.label, _name(one), one.parameters, one.robust) for one in found.attacks}
    return worst_case.judge(tried.pop(id(nearest)), list(tried.values()))


def _on_cross_entropy(found: Assessment) -> list[AttackResult]:
    """Return the attacks on the cross-entropy, but those that were given what other attacks had left."""
    return [
        one
        for place, one in enumerate(found.attacks)
        if _loss(one) == "ce" and not (one.survivors_only and place)
    ]


def _left_and_black(found: Assessment) -> tuple[Tensor, list[AttackResult]]:
    """Return what all attacks with gradients leave, and the attacks without."""
    black = [one for one in found.attacks if _needs_no_gradients(one)]
    white = [one.robust for one in found.attacks if not _needs_no_gradients(one)]
    return torch.stack([found.correct, *white]).all(dim=0), black


def _name(attack: AttackResult) -> str:
    return worst_case.NEEDS_NO_GRADIENTS[0] if _needs_no_gradients(attack) else attack.name


def _needs_no_gradients(attack: AttackResult) -> bool:
    """Decide by the attack's name, or by its passes where it is an attack of another library."""
    only_forward = bool(attack.forward.any()) and not bool(attack.backward.any())
    return attack.name in worst_case.NEEDS_NO_GRADIENTS or (attack.name == "ExternalAttack" and only_forward)


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
