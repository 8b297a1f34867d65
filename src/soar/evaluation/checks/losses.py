"""Attacks on the cross-entropy against attacks on margins: does the loss hide what the network shows?"""

from __future__ import annotations

from soar.evaluation.checks.judgment import HALVED, Thresholds, not_made, share_of
from soar.evaluation.checks.shared import ON_CROSS_ENTROPY, ON_MARGINS, SharedAttacks
from soar.evaluation.diagnosis import Evidence, Verdict
from soar.text import percent

CHECK = "losses"
TITLE = "Attacks on the cross-entropy against attacks on margins"
# Honest networks lose 1 to 5 points when the loss is changed, MART, which shapes margins, 5 to 9; the SOAR of
# the paper lost 35 to 50 (AutoAttack, its tables on CIFAR-10 and SVHN).
LIMITS = Thresholds(suspicious=0.06, masked=0.12)
RULE = f"cross-entropy attacks leave more examples than margin attacks of equal budget: {LIMITS.rule}{HALVED}"

MEANING: dict[Verdict, str] = {
    "sound": "no more apart than for honest networks",
    "suspicious": "cross-entropy alone overstates the robustness",
    "masked": "the loss hides the way, not the network",
}


def examine(shared: SharedAttacks) -> Evidence:
    """Compare what the two kinds of attack leave, on the same examples and with the same budget.

    Cross-entropy loses its slope where the softmax saturates; the margin and the difference-of-logits ratio
    do not. A network that is robust for one of them only is not robust.

    Args:
        shared: the model under diagnosis
    """
    if not shared.target.correct.any():
        return not_made(CHECK, TITLE, RULE, "no clean image is correctly classified")
    of_entropy, of_margins = shared.survivors(*ON_CROSS_ENTROPY), shared.survivors(*ON_MARGINS)
    found = LIMITS.compare(of_entropy, of_margins)
    judged = found.judged
    entropy, margins = share_of(of_entropy), share_of(of_margins)
    return Evidence(
        check=CHECK,
        title=TITLE,
        finding=judged.finding,
        sentence=f"Attacks on margins leave {percent(margins)} where those on the cross-entropy leave"
        f" {percent(entropy)}: {MEANING[judged.finding]}.",
        rule=RULE,
        numbers={
            **{attack.label: share_of(shared.robust(attack)) for attack in ON_CROSS_ENTROPY + ON_MARGINS},
            "all on cross-entropy": entropy,
            "all on margins": margins,
            "difference": found.difference,
            "low": found.low,
            "high": found.high,
        },
        excess=judged.excess,
        advice="" if judged.finding == "sound" else "soar evaluate RUN --attacks standard",
    )
