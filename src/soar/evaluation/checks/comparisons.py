"""Compare attacks that should agree: on other losses, with softened logits, and without gradients."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from soar.attacks import Attack, Square, Transfer
from soar.evaluation.checks import (
    ON_CROSS_ENTROPY,
    ON_MARGINS,
    PGD_CE,
    PGD_MARGIN,
    SQUARE,
    WHITE_BOX,
    SharedAttacks,
)
from soar.evaluation.diagnosis import AdviceKind, Check, CheckResult, Judgment, Thresholds, Verdict, severity
from soar.evaluation.interval import counted, share_of
from soar.evaluation.target import Target
from soar.losses import margin
from soar.text import percent

# Honest networks lose 1 to 5 points when the loss is changed, MART, which shapes margins, 5 to 9; the SOAR of
# the paper lost 35 to 50 (AutoAttack, its tables on CIFAR-10 and SVHN).
LIMITS = Thresholds(suspicious=0.06, masked=0.12, halved=0.06)
# With logits 3 apart, the second class has one twentieth of the first one's probability: enough to steer by.
GAP = 3.0
LOSSES = Check(
    "losses",
    "Attacks on the cross-entropy against attacks on margins",
    f"cross-entropy attacks leave more examples than margin attacks of equal budget: {LIMITS.rule}",
)
TEMPERATURE = Check(
    "temperature",
    "The same attack with softened logits",
    f"{PGD_CE.label} breaks more once the logits are divided so that correct predictions lead by {GAP:g}"
    f" in the median: {LIMITS.rule}",
)

# AutoAttack warns from 0.2 points on, after thousands of images and hundreds of gradients. With a few hundred
# images and 160 gradients one or two examples may be chance.
BLACK_BOX_LIMITS = Thresholds(suspicious=0.01, masked=0.05)
BLACK_BOX = Check(
    "black box",
    "Attacks without gradients against attacks with them",
    f"examples that all white-box attacks leave and one without gradients breaks: {BLACK_BOX_LIMITS.rule}",
)
# Where the model hides the way, in the order of what is the most likely to find it.
AGAINST_HIDING: tuple[AdviceKind, ...] = ("straight through", "average", "square", "transfer")
_NO_SOURCE = " No other network was given to transfer attacks from."

_OF_LOSS: dict[Verdict, str] = {
    "sound": "no more apart than for honest networks",
    "suspicious": "cross-entropy alone overstates the robustness",
    "masked": "the loss hides the way, not the network",
}
# The margin attacks differ in their search too: one of them has targets.
_OF_SEARCH: dict[Verdict, str] = {
    "sound": _OF_LOSS["sound"],
    "suspicious": "an attack without targets overstates the robustness",
    "masked": "only an attack with targets finds the way",
}
_OF_SOFTENING: dict[Verdict, str] = {
    "sound": "the loss hides no more than for honest networks",
    "suspicious": "the loss hides part of the way",
    "masked": "the loss, not the network, was stopping the attack",
}


def examine_losses(shared: SharedAttacks) -> CheckResult:
    """Compare attacks on the cross-entropy with attacks on margins, of the same budget on the same examples.

    The gradient of the cross-entropy vanishes where the softmax saturates; those of the margin and the
    difference-of-logits ratio do not. A network that is robust for one of them only is not robust. The loss
    is the cause if PGD, which is the same search on either, gains half of the difference.

    Args:
        shared: the attacks on the target
    """
    of_entropy, of_margins = shared.survivors(*ON_CROSS_ENTROPY), shared.survivors(*ON_MARGINS)
    judged, difference = LIMITS.compare(of_entropy, of_margins)
    entropy, margins = share_of(of_entropy), share_of(of_margins)
    by_search = shared.robust(PGD_CE) & shared.robust(PGD_MARGIN)
    is_loss = 2 * share_of(of_entropy & ~by_search) >= share_of(of_entropy & ~of_margins)
    sentence = f"Attacks on margins leave {percent(margins)} where those on the cross-entropy leave"
    sentence += f" {percent(entropy)}"
    if not is_loss and judged.finding != "sound":
        sentence += f", and {PGD_MARGIN.label} leaves {percent(share_of(shared.robust(PGD_MARGIN)))}"
    return LOSSES.result(
        judged,
        f"{sentence}: {(_OF_LOSS if is_loss else _OF_SEARCH)[judged.finding]}.",
        {
            **{attack.label: share_of(shared.robust(attack)) for attack in ON_CROSS_ENTROPY + ON_MARGINS},
            "all on cross-entropy": entropy,
            "all on margins": margins,
            **difference,
        },
        advice=("scaling", "autoattack") if is_loss else ("adaptive", "autoattack"),
    )


def judge_loss_gain(shared: SharedAttacks) -> Judgment:
    """Return whether PGD gains by another loss, the margin or that of softened logits; all else is equal."""
    _, temperature = softening(shared.target)
    before = shared.robust(PGD_CE)
    others = [shared.robust(PGD_MARGIN)]
    others += [] if temperature == 1 else [shared.robust(PGD_CE, temperature=temperature)]
    gains = [LIMITS.compare(before, after)[0] for after in others]
    return max(gains, key=severity)


def examine_temperature(shared: SharedAttacks) -> CheckResult:
    """Repeat an attack on the cross-entropy with the logits divided by a temperature.

    Dividing all logits by one number changes no prediction, so the network is the same and so is the attack;
    only the loss between them is no longer flat.

    Args:
        shared: the attacks on the target
    """
    gap, temperature = softening(shared.target)
    before = shared.robust(PGD_CE)
    after = before if temperature == 1 else shared.robust(PGD_CE, temperature=temperature)
    judged, difference = LIMITS.compare(before, after)
    if temperature == 1:
        sentence = f"Correct predictions lead by {gap:.2g} in the median: no saturation had to be undone."
    else:
        sentence = (
            f"{PGD_CE.label} leaves {percent(share_of(before))}, and {percent(share_of(after))} where the"
            f" logits are divided by {temperature:,.1f}: {_OF_SOFTENING[judged.finding]}."
        )
    return TEMPERATURE.result(
        judged,
        sentence,
        {
            "temperature": temperature,
            "median gap": gap,
            PGD_CE.label: share_of(before),
            f"{PGD_CE.label} softened": share_of(after),
            **difference,
        },
        advice=("scaling", "autoattack"),
    )


def examine_black_box(shared: SharedAttacks, *, square: Square = SQUARE) -> CheckResult:
    """Count what survives all white-box attacks but not Square or another network's adversarial points.

    With gradients an attack can do all that it can do without, and more. Where less is found with them, they
    lead nowhere.

    Args:
        shared: the attacks on the target, and the networks to transfer from
        square: the attack without gradients
    """
    left = shared.survivors(*WHITE_BOX)
    found = {attack.label: shared.robust(attack) for attack in without_gradients(shared, square)}
    numbers: dict[str, float | int | str | None] = {"white-box": share_of(left)}
    for label, robust in found.items():
        numbers |= {label: share_of(robust), f"{label} alone breaks": share_of(left & ~robust)}
    worst = max(found, key=lambda label: share_of(left & ~found[label]))
    broken, low, high = counted(left & ~found[worst])
    judged = BLACK_BOX_LIMITS.judge(broken, low, high)
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
    result = BLACK_BOX.result(judged, sentence, numbers, advice=AGAINST_HIDING)
    return replace(result, advice=("transfer",)) if is_sound and not shared.sources else result


def without_gradients(shared: SharedAttacks, square: Square = SQUARE) -> list[Attack[Any]]:
    """Return Square, and transfer from every source."""
    sources = shared.sources.items()
    return [square, *(Transfer(source=one, source_name=name, attack=PGD_CE) for name, one in sources)]


def softening(target: Target) -> tuple[float, float]:
    """Return the median lead of correct predictions over the next class, and the temperature for `GAP`.

    Args:
        target: at least one of its images is correctly classified

    Returns:
        The lead in logits, and the temperature, which is at least 1.
    """
    leads = -margin(target.logits, target.y)
    gap = float(leads.cpu()[target.correct].double().median())
    return gap, max(1.0, gap / GAP)
