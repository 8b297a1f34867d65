"""Compare attacks with more of everything: a working one gets stronger with steps, restarts and radius."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import NamedTuple

from soar import epsilon
from soar.attacks import PGD
from soar.evaluation.checks import LONGER, OFTENER, PGD_CE, SharedAttacks
from soar.evaluation.checks.comparisons import AGAINST_HIDING
from soar.evaluation.checks.gradients import has_gradient
from soar.evaluation.diagnosis import AdviceKind, Check, CheckResult, Judgment, Thresholds, severity
from soar.evaluation.interval import counted, paired, share_of
from soar.evaluation.target import Target
from soar.text import percent
from soar.threat import L1, L2, Linf, Threat

FACTORS = (2, 4)
# So many steps cross the whole range two and a half times: every image can be reached. The walk begins at the
# clean image, because random points of so large a ball are noise, and networks fail on noise in any case.
WITHOUT_A_LIMIT, STEPS_ACROSS = PGD(steps=50, random_start=False), 20
_MORE: tuple[AdviceKind, ...] = ("restarts", "average")

# Five times the work should find little more; where it finds much, the search had not converged.
FALL = Thresholds(suspicious=0.05)
# A larger ball holds the smaller one, so a rise can only come from a search that loses its way.
RISE = Thresholds(suspicious=0.02, masked=0.1)
# Nothing survives an attack that may choose any image, if its gradients lead anywhere. Of two losses one is
# enough: that the other saturates is seen by comparing them. An image without any gradient is for the check
# of gradients to judge: there no attack on any loss moves, whether something is hidden or not.
LEFT = Thresholds(suspicious=0.01, masked=0.05)
BUDGETS = Check(
    "budgets",
    "More steps, more starts, larger radii",
    f"{LONGER.label} or {OFTENER.label} leaves less than {PGD_CE.label}: {FALL.rule};"
    f" more steps, more starts or a larger radius leave more: {RISE.rule};"
    f" images with a gradient survive PGD on both losses where any image is allowed: {LEFT.rule}",
)


class _Part(NamedTuple):
    """What one comparison shows."""

    label: str
    left: float
    judged: Judgment
    why: str
    """what follows, if it counts against the model"""
    numbers: dict[str, float]
    """by what is added to the label"""
    advice: tuple[AdviceKind, ...]


def examine(shared: SharedAttacks) -> CheckResult:
    """Compare PGD with attacks that have more steps, restarts and radius, as a working attack must improve.

    Args:
        shared: the attacks on the target
    """
    parts = [_effort(shared, LONGER), _effort(shared, OFTENER), *_radii(shared), *_unbounded(shared)]
    worst = max(parts, key=lambda part: severity(part.judged))
    usual = share_of(shared.robust(PGD_CE))
    if worst.judged.finding == "sound":
        shown = ", ".join(f"{part.label} {percent(part.left)}" for part in parts)
        sentence = f"{PGD_CE.label} leaves {percent(usual)}; {shown}: nothing odd."
    else:
        sentence = (
            f"{PGD_CE.label} leaves {percent(usual)}, {worst.label} leaves {percent(worst.left)}:"
            f" {worst.why}."
        )
    numbers: dict[str, float | int | str | None] = {PGD_CE.label: usual}
    for part in parts:
        numbers[part.label] = part.left
        numbers |= {f"{part.label} {name}": number for name, number in part.numbers.items()}
    return BUDGETS.result(worst.judged, sentence, numbers, advice=worst.advice)


def _effort(shared: SharedAttacks, attack: PGD) -> _Part:
    """Compare an attack that works harder with the usual one."""
    before, after = shared.robust(PGD_CE), shared.robust(attack)
    fall, low, high = paired(before, after)
    judged = max(FALL.judge(fall, low, high), RISE.judge(-fall, -high, -low), key=severity)
    why = "the usual search had not converged" if fall > 0 else "more work finds less, so chance decides"
    return _Part(attack.label, share_of(after), judged, why, {"fall": fall, "low": low, "high": high}, _MORE)


def _radii(shared: SharedAttacks) -> list[_Part]:
    """Compare each larger radius with the one before it."""
    parts = []
    smaller, before = shared.target.threat, shared.robust(PGD_CE)
    for factor in FACTORS:
        if shared.target.threat.eps * factor > _everything(shared.target).eps:
            break
        larger = shared.target.threat.scaled(Fraction(factor))
        after = shared.robust(PGD_CE, threat=larger)
        rise, low, high = paired(after, before)
        why = (
            f"at eps {epsilon.show(smaller.eps)} it left {percent(share_of(before))}, so with more room it"
            " finds less and its gradients mislead it"
        )
        label = f"{PGD_CE.label} at eps {epsilon.show(larger.eps)}"
        numbers = {"rise": rise, "low": low, "high": high}
        judged = RISE.judge(rise, low, high)
        parts.append(_Part(label, share_of(after), judged, why, numbers, AGAINST_HIDING))
        smaller, before = larger, after
    return parts


def _unbounded(shared: SharedAttacks) -> list[_Part]:
    """Let attacks choose any image.

    The other images of the data are among them. Where the model predicts other classes for them, there are
    points that fool it, and only a search without guidance misses them all.
    """
    if len(shared.target.predictions.unique()) < 2:
        return []
    threat = _everything(shared.target)
    left = shared.target.correct.clone()
    left[left.clone()] = has_gradient(shared.target.subset(left))
    for loss in ("ce", "margin"):
        left &= shared.robust(
            replace(WITHOUT_A_LIMIT, step_size=threat.eps / STEPS_ACROSS, loss=loss), threat=threat
        )
    share, low, high = counted(left)
    why = "it may choose any image, so the gradients do not show it the way"
    label, numbers = f"{WITHOUT_A_LIMIT.label} without a limit", {"low": low, "high": high}
    return [_Part(label, share, LEFT.judge(share, low, high), why, numbers, AGAINST_HIDING)]


def _everything(target: Target) -> Threat:
    """Return the threat whose ball around any image holds all images."""
    if isinstance(target.threat, Linf):
        return Linf(1)
    pixels = math.prod(target.stored.shape[1:])
    if isinstance(target.threat, L1):
        return L1(pixels)
    return L2(Fraction(math.isqrt(pixels - 1) + 1))
