"""Attacks that use no gradient of the model: do they break what white-box attacks leave?"""

from __future__ import annotations

from typing import Any

from soar.attacks import Attack, Square, Transfer
from soar.evaluation.checks.judgment import Thresholds, counted, not_made, share_of
from soar.evaluation.checks.shared import ON_CROSS_ENTROPY, ON_MARGINS, PGD_CE, SharedAttacks
from soar.evaluation.diagnosis import Evidence
from soar.text import percent

CHECK = "black box"
TITLE = "Attacks without gradients against attacks with them"
# AutoAttack warns from 0.2 points on, after thousands of images and hundreds of gradients. With a few hundred
# images and 160 gradients one or two examples may be chance.
LIMITS = Thresholds(suspicious=0.01, masked=0.05)
RULE = f"examples that all white-box attacks leave and one without gradients breaks: {LIMITS.rule}"
NO_SOURCE = " No other network was given to transfer attacks from (--source RUN)."


def examine(shared: SharedAttacks, *, queries: int = 1000) -> Evidence:
    """Count what survives all white-box attacks but fall to Square or to another network's points.

    Whoever sees the gradients can do all that others can, and more. Where less is found with them, they
    lead nowhere.

    Args:
        shared: the model under diagnosis; its sources are the networks to transfer from
        queries: how many predictions Square may ask for an image
    """
    if not shared.target.correct.any():
        return not_made(CHECK, TITLE, RULE, "no clean image is correctly classified")
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
    sentence = _sentence(list(found), worst, share_of(left), broken, is_sound=is_sound)
    return Evidence(
        check=CHECK,
        title=TITLE,
        finding=judged.finding,
        sentence=sentence + ("" if shared.sources else NO_SOURCE),
        rule=RULE,
        numbers=numbers | {"difference": broken, "low": low, "high": high},
        excess=judged.excess,
        advice=_advice(is_sound=is_sound, has_source=bool(shared.sources)),
    )


def _sentence(tried: list[str], worst: str, white: float, broken: float, *, is_sound: bool) -> str:
    told = f"White-box attacks leave {percent(white)}"
    if is_sound:
        names = " and ".join(tried)
        verb = "breaks" if len(tried) == 1 else "break at most"
        return f"{told}; {names} {verb} a further {percent(broken)}: gradients lead as far as it gets."
    return f"{told}; {worst}, which sees no gradients, breaks a further {percent(broken)}: they lead astray."


def _advice(*, is_sound: bool, has_source: bool) -> str:
    if not is_sound:
        return "soar evaluate RUN --attacks standard"
    return "" if has_source else "soar diagnose RUN --source OTHER_RUN"
