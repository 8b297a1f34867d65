"""The same attack with softened logits: was it a saturated softmax that stopped it?"""

from __future__ import annotations

from soar.evaluation.checks.judgment import HALVED, Thresholds, not_made, share_of
from soar.evaluation.checks.shared import PGD_CE, SharedAttacks
from soar.evaluation.diagnosis import Evidence, Verdict
from soar.evaluation.target import Target
from soar.losses import margin
from soar.text import percent

CHECK = "temperature"
TITLE = "The same attack with softened logits"
# With logits 3 apart, the second class has one twentieth of the first one's probability: enough to steer by.
GAP = 3.0
# The same as for the change of the loss: both ask how much the cross-entropy hides.
LIMITS = Thresholds(suspicious=0.06, masked=0.12)
RULE = (
    f"{PGD_CE.label} breaks more once the logits are divided so that right answers lead by {GAP:g}"
    f" in the median: {LIMITS.rule}{HALVED}"
)

MEANING: dict[Verdict, str] = {
    "sound": "the loss hides no more than for honest networks",
    "suspicious": "the loss hides part of the way",
    "masked": "the loss, not the network, was stopping the attack",
}


def examine(shared: SharedAttacks) -> Evidence:
    """Repeat an attack on the cross-entropy with the logits divided by a temperature.

    Dividing all logits by one number changes no prediction, so the network is the same and so is the attack;
    only the loss between them is no longer flat.

    Args:
        shared: the model under diagnosis
    """
    if not shared.target.correct.any():
        return not_made(CHECK, TITLE, RULE, "no clean image is correctly classified")
    gap, temperature = softening(shared.target)
    before = shared.robust(PGD_CE)
    after = before if temperature == 1 else shared.robust(PGD_CE, temperature=temperature)
    found = LIMITS.compare(before, after)
    judged = found.judged
    if temperature == 1:
        sentence = f"Right answers lead by {gap:.2g} in the median: no saturation had to be undone."
    else:
        sentence = (
            f"{PGD_CE.label} leaves {percent(share_of(before))}, and {percent(share_of(after))} where the"
            f" logits are divided by {temperature:,.1f}: {MEANING[judged.finding]}."
        )
    return Evidence(
        check=CHECK,
        title=TITLE,
        finding=judged.finding,
        sentence=sentence,
        rule=RULE,
        numbers={
            "temperature": temperature,
            "median gap": gap,
            PGD_CE.label: share_of(before),
            f"{PGD_CE.label} softened": share_of(after),
            "difference": found.difference,
            "low": found.low,
            "high": found.high,
        },
        excess=judged.excess,
        advice="" if judged.finding == "sound" else "soar evaluate RUN --attacks standard",
    )


def softening(target: Target) -> tuple[float, float]:
    """Return the median lead of correct predictions over the next class, and the temperature for `GAP`.

    Args:
        target: at least one of its images is correctly classified

    Returns:
        The lead in logits, and the temperature, which is at least 1.
    """
    leads = -margin(target.logits, target.y)
    gap = float(leads[target.correct.to(leads.device)].double().median())
    return gap, max(1.0, gap / GAP)
