"""Is there a slope to climb? Zero and vanishing gradients, saturated softmaxes, and how sure the model is."""

from __future__ import annotations

from dataclasses import asdict

from soar.evaluation.checks.judgment import Judgment, Thresholds, not_made
from soar.evaluation.checks.shared import SharedAttacks
from soar.evaluation.checks.slopes import GradientNumbers, gradient_numbers
from soar.evaluation.diagnosis import Evidence, Verdict
from soar.evaluation.interval import wilson
from soar.text import percent

CHECK = "gradients"
TITLE = "Slope of the loss at the images"

# A network of ReLUs has a slope nearly everywhere, so a few examples without any are odd. A fifth of them
# cannot be chance, and every one passes for robust whatever an attack on this loss does.
ZEROS = Thresholds(suspicious=0.02, masked=0.2)
# A saturated softmax alone proves nothing, since networks that are trained for long have them too; but from
# here on attacks on the cross-entropy can miss as much as lies between one method and another.
ROUNDED = Thresholds(suspicious=0.1)
RULE = (
    f"examples without any slope of the cross-entropy: {ZEROS.rule}; with a slope lost in rounding or a"
    f" saturated softmax: {ROUNDED.rule}; confidence decides nothing"
)


def judge(found: GradientNumbers) -> Evidence:
    """Say what the slopes mean for attacks.

    Args:
        found: what was measured
    """

    def judged(limits: Thresholds, share: float) -> Judgment:
        return limits.judge(share, wilson(round(share * found.examples), found.examples)[0])

    zeros, rounded = judged(ZEROS, found.zero), judged(ROUNDED, max(found.vanishing, found.saturated))
    gravest = max(zeros, rounded, key=lambda one: one.gravity)
    return Evidence(
        check=CHECK,
        title=TITLE,
        finding=gravest.finding,
        sentence=_sentence(found, gravest.finding, by_zeros=gravest is zeros),
        rule=RULE,
        numbers=asdict(found),
        excess=gravest.excess,
        advice="" if gravest.finding == "sound" else _advice(found),
    )


def examine(shared: SharedAttacks) -> Evidence:
    """Look at the slopes at all examples that are correctly classified."""
    target = shared.target.subset(shared.target.correct)
    if not len(target):
        return not_made(CHECK, TITLE, RULE, "no clean image is correctly classified")
    return judge(gradient_numbers(target))


def _sentence(found: GradientNumbers, finding: Verdict, *, by_zeros: bool) -> str:
    if finding == "sound":
        return (
            f"Slopes are there to climb: zero on {percent(found.zero)} of the images, lost in rounding on"
            f" {percent(found.vanishing)}, softmax saturated on {percent(found.saturated)}."
        )
    if not by_zeros and found.saturated >= found.vanishing:
        return (
            f"{percent(found.saturated)} of the softmaxes are saturated in {found.precision}, so attacks on"
            " cross-entropy see next to no slope there."
        )
    stopped = (
        "that of the margin is not, so the loss stops attacks and not the model"
        if found.only_margin >= found.neither
        else "so is that of the margin: the model itself hides it, as rounding does"
    )
    what, share = ("is zero", found.zero) if by_zeros else ("is lost in rounding", found.vanishing)
    return f"The slope of the cross-entropy {what} on {percent(share)} of the images; {stopped}."


def _advice(found: GradientNumbers) -> str:
    if found.neither > found.only_margin:
        return "soar evaluate RUN --attacks square"
    return "soar evaluate RUN --attacks standard"
