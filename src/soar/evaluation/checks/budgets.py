"""More steps, more starts, larger radii: an attack that works gets stronger and in the end breaks all."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from soar import epsilon
from soar.attacks import PGD
from soar.evaluation.checks.judgment import Judgment, Thresholds, counted, not_made, share_of
from soar.evaluation.checks.shared import PGD_CE, SharedAttacks
from soar.evaluation.diagnosis import Evidence
from soar.evaluation.interval import paired
from soar.text import percent
from soar.threat import L2, Linf, Threat

CHECK = "budgets"
TITLE = "More steps, more starts, larger radii"
LONGER = PGD(steps=100)
OFTENER = PGD(steps=20, restarts=5)
FACTORS = (2, 4)
# So many steps cross the whole range two and a half times: every image can be reached. The walk begins at the
# clean image, because random points of so large a ball are noise, and networks fail on noise in any case.
STEPS, STEPS_ACROSS = 50, 20

# Five times the work should find little more; where it finds much, the search had not converged.
FALL = Thresholds(suspicious=0.05)
# A larger ball holds the smaller one, so a rise can only come from a search that loses its way.
RISE = Thresholds(suspicious=0.02, masked=0.1)
# Nothing survives an attack that may choose any image, if its gradients lead anywhere.
LEFT = Thresholds(suspicious=0.01, masked=0.05)
RULE = (
    f"{LONGER.label} or {OFTENER.label} leaves less than {PGD_CE.label}: {FALL.rule};"
    f" more steps, more starts or a larger radius leave more: {RISE.rule};"
    f" something survives where any image is allowed: {LEFT.rule}"
)


@dataclass(frozen=True)
class _Part:
    """What one comparison says."""

    what: str
    left: float
    judged: Judgment
    why: str
    """what follows, if it speaks against the model"""
    numbers: dict[str, float]


def examine(shared: SharedAttacks) -> Evidence:
    """Return an attack more of everything, and see whether it behaves as a working attack must.

    Args:
        shared: the model under diagnosis
    """
    if not shared.target.correct.any():
        return not_made(CHECK, TITLE, RULE, "no clean image is correctly classified")
    parts = [_effort(shared, LONGER), _effort(shared, OFTENER), *_radii(shared), *_unbounded(shared)]
    gravest = max(parts, key=lambda part: part.judged.gravity)
    is_sound = gravest.judged.finding == "sound"
    usual = share_of(shared.robust(PGD_CE))
    if is_sound:
        shown = ", ".join(f"{part.what} {percent(part.left)}" for part in parts)
        sentence = f"{PGD_CE.label} leaves {percent(usual)}; {shown}: nothing odd."
    else:
        sentence = (
            f"{PGD_CE.label} leaves {percent(usual)}, {gravest.what} leaves {percent(gravest.left)}:"
            f" {gravest.why}."
        )
    return Evidence(
        check=CHECK,
        title=TITLE,
        finding=gravest.judged.finding,
        sentence=sentence,
        rule=RULE,
        numbers={PGD_CE.label: usual, **{name: n for part in parts for name, n in part.numbers.items()}},
        excess=gravest.judged.excess,
        advice="" if is_sound else "soar evaluate RUN --attacks standard",
    )


def _effort(shared: SharedAttacks, attack: PGD) -> _Part:
    """Compare an attack that works harder with the usual one."""
    before, after = shared.robust(PGD_CE), shared.robust(attack)
    fall, low, high = paired(before, after)
    judged = max(FALL.judge(fall, low), RISE.judge(-fall, -high), key=lambda one: one.gravity)
    why = (
        "the usual search had not come to its end" if fall > 0 else "more work finds less, so chance decides"
    )
    label = attack.label
    numbers = {label: share_of(after), f"{label} fall": fall, f"{label} low": low, f"{label} high": high}
    return _Part(label, share_of(after), judged, why, numbers)


def _radii(shared: SharedAttacks) -> list[_Part]:
    """Compare each larger radius with the one before it."""
    parts = []
    smaller, before = shared.target.threat, shared.robust(PGD_CE)
    for factor in FACTORS:
        if shared.target.threat.eps * factor > _everything(shared).eps:
            break
        larger = shared.target.threat.scaled(Fraction(factor))
        after = shared.robust(PGD_CE, threat=larger)
        rise, low, high = paired(after, before)
        label = f"{PGD_CE.label} at eps {epsilon.show(larger.eps)}"
        numbers = {label: share_of(after), f"{label} rise": rise, f"{label} low": low, f"{label} high": high}
        why = (
            f"at eps {epsilon.show(smaller.eps)} it left {percent(share_of(before))}, so with more room it"
            " finds less and its gradients mislead it"
        )
        parts.append(_Part(label, share_of(after), RISE.judge(rise, low), why, numbers))
        smaller, before = larger, after
    return parts


def _unbounded(shared: SharedAttacks) -> list[_Part]:
    """Let attacks choose any image.

    The other images of the data are among them. Where the model gives them other answers, there are points
    that fool it, and only a search without guidance misses them all.
    """
    if len(shared.target.logits.argmax(dim=1).unique()) < 2:
        return []
    threat = _everything(shared)
    parts = []
    for loss in ("ce", "margin"):
        attack = PGD(steps=STEPS, step_size=threat.eps / STEPS_ACROSS, random_start=False, loss=loss)
        share, low, high = counted(shared.robust(attack, threat=threat))
        label = f"{attack.label} without a limit"
        numbers = {label: share, f"{label} low": low, f"{label} high": high}
        why = "it may choose any image, so the gradients do not show it the way"
        parts.append(_Part(label, share, LEFT.judge(share, low), why, numbers))
    return parts


def _everything(shared: SharedAttacks) -> Threat:
    """Return the threat whose ball around any image holds all images."""
    if isinstance(shared.target.threat, Linf):
        return Linf(1)
    return L2(Fraction(math.isqrt(shared.target.x[0].numel() - 1) + 1))
