"""Attacks that use no gradient of the model: do they break what white-box attacks leave?"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from soar.attacks import Attack, Square, Transfer
from soar.evaluation.checks.shared import ON_CROSS_ENTROPY, ON_MARGINS, PGD_CE, SharedAttacks
from soar.evaluation.diagnosis import Check, CheckResult, Thresholds
from soar.evaluation.interval import counted, share_of
from soar.text import percent

# AutoAttack warns from 0.2 points on, after thousands of images and hundreds of gradients. With a few hundred
# images and 160 gradients one or two examples may be chance.
LIMITS = Thresholds(suspicious=0.01, masked=0.05)
BLACK_BOX = Check(
    "black box",
    "Attacks without gradients against attacks with them",
    f"examples that all white-box attacks leave and one without gradients breaks: {LIMITS.rule}",
)
_NO_SOURCE = " No other network was given to transfer attacks from (--source RUN)."


def examine(shared: SharedAttacks, *, queries: int = 1000) -> CheckResult:
    """Count what survives all white-box attacks but not Square or another network's adversarial points.

    With gradients an attack can do all that it can do without, and more. Where less is found with them, they
    lead nowhere.

    Args:
        shared: the attacks on the target, and the networks to transfer from
        queries: how many predictions Square may use for an image
    """
    left = shared.survivors(*ON_CROSS_ENTROPY, *ON_MARGINS)
    attacks: list[Attack[Any]] = [Square(queries=queries)]
    attacks += [Transfer(source=one, source_name=name, attack=PGD_CE) for name, one in shared.sources.items()]
    found = {attack.label: shared.robust(attack) for attack in attacks}
    numbers: dict[str, float | int | str | None] = {"white-box": share_of(left)}
    for label, robust in found.items():
        numbers |= {label: share_of(robust), f"{label} alone breaks": share_of(left & ~robust)}
    worst = max(found, key=lambda label: share_of(left & ~found[label]))
    broken, low, high = counted(left & ~found[worst])
    judged = LIMITS.judge(broken, low)
    is_sound = judged.finding == "sound"
    sentence = f"White-box attacks leave {percent(share_of(left))}; "
    if is_sound:
        verb = "breaks" if len(found) == 1 else "break at most"
        sentence += (
            f"{' and '.join(found)} {verb} a further {percent(broken)}: gradients lead as far as it gets."
        )
    else:
        sentence += f"{worst}, which uses no gradients, breaks a further {percent(broken)}: they lead astray."
    if not shared.sources:
        sentence += _NO_SOURCE
    numbers |= {"difference": broken, "low": low, "high": high}
    result = BLACK_BOX.result(judged, sentence, numbers)
    if is_sound and not shared.sources:
        return replace(result, advice="soar diagnose RUN --source OTHER_RUN")
    return result
