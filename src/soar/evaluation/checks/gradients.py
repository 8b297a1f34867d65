"""Are there gradients to climb? Zero and vanishing ones, saturated softmaxes, and the model's confidence."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace

import torch
from torch import Tensor, nn

from soar import losses, randomness
from soar.attacks.pgd import climb, usual_step_length
from soar.evaluation.checks import OFTENER, PGD_CE, PGD_MARGIN, WHITE_BOX, SharedAttacks
from soar.evaluation.checks.comparisons import (
    AGAINST_HIDING,
    BLACK_BOX_LIMITS,
    LIMITS,
    judge_loss_gain,
    without_gradients,
)
from soar.evaluation.checks.lost import lost_in
from soar.evaluation.diagnosis import LOST_IN, Check, CheckResult, Judgment, Thresholds, severity
from soar.evaluation.interval import counted, wilson
from soar.evaluation.target import Target
from soar.model_state import untouched
from soar.prediction import logits_of
from soar.text import percent
from soar.threat import Threat

# A network of ReLUs has a gradient nearly everywhere, so a few examples without any are odd. A fifth of them
# cannot be chance, and every one passes for robust whatever an attack on this loss does.
ZEROS = Thresholds(suspicious=0.02, masked=0.2)
# From here on attacks on the cross-entropy can miss as much as lies between one method and another. That they
# do is not shown by it: networks that are trained for long, or whose logits are large, saturate too, and PGD
# takes the sign of what is left of the gradient. So what the loss loses counts only where another loss gains.
ROUNDED = Thresholds(suspicious=0.1)
GRADIENTS = Check(
    "gradients",
    "Gradient of the loss at the images",
    f"examples where the gradient of the margin is zero, if an attack without gradients breaks more:"
    f" {ZEROS.rule}; examples where that of the cross-entropy is zero (the same), lost in rounding, or the"
    f" softmax is saturated, if PGD gains by another loss: {ROUNDED.rule}; confidence decides nothing",
)


@dataclass(frozen=True, kw_only=True)
class GradientNumbers:
    """What the gradients at some images are like; shares from 0 to 1."""

    examples: int
    precision: str
    """of the logits, such as float32"""
    zero: float
    """share of examples where the gradient of the cross-entropy is zero in every pixel"""
    margin_zero: float
    """share where that of the margin is: no loss has a gradient"""
    vanishing: float
    """share where it is lost in rounding, the zeros included"""
    saturated: float
    """share where the probability of the label is exactly 1"""
    only_margin: float
    """share where it is lost in rounding, but that of the margin is not: the loss stops attacks"""
    neither: float
    """share where both are: the model stops attacks"""
    entries: float
    """mean share of the pixels in which the gradient is not zero"""
    confidence_clean: float
    """mean of the largest probability at the images"""
    confidence_clean_std: float
    confidence_random: float
    """at points drawn uniformly from the ball"""
    confidence_random_std: float
    confidence_pgd1: float
    """one step of ascent from there"""
    confidence_pgd1_std: float


def input_gradients(
    model: nn.Module, x: Tensor, labels: Tensor, *scores: losses.Loss
) -> tuple[Tensor, list[Tensor]]:
    """Return the logits at some images and the gradient of every loss there, by one backward pass each.

    As in attacks, a gradient that is NaN counts as zero, and so does that of a model that cuts the graph.

    Args:
        model: the model, in the mode it should be evaluated in
        x: images as the model takes them
        labels: true classes
        scores: losses

    >>> input_gradients(nn.Identity(), torch.zeros(1, 2), torch.tensor([0]), losses.cross_entropy)[1]
    [tensor([[-0.5000,  0.5000]])]
    """
    points = x.detach().requires_grad_()
    with torch.enable_grad():
        logits = logits_of(model, points)
        if not logits.requires_grad:
            return logits.detach(), [torch.zeros_like(x) for _ in scores]
        found = [
            torch.autograd.grad(
                score(logits, labels).sum(),
                points,
                retain_graph=True,
                allow_unused=True,
                materialize_grads=True,
            )[0].nan_to_num(nan=0.0)
            for score in scores
        ]
    return logits.detach(), found


def is_lost(gradient: Tensor, logits: Tensor, threat: Threat) -> Tensor:
    r"""Return where a gradient is lost in rounding.

    \( \epsilon ||g||_* \le u \max(1, \max_i |z_i|) \), u the distance from 1 to the next number

    The left side is the most that the loss can change in the ball to first order, the right side what the
    loss is rounded by, since it is made of logits. Below it neither the loss nor the sign of its gradient
    means anything: in float32 its factor of the label, p_y - 1, is itself only known to within u.

    Args:
        gradient: gradient of the loss at the images
        logits: the model's logits there
        threat: the ball
    """
    return threat.radius * threat.dual_norm(gradient) <= rounding(logits)


def rounding(logits: Tensor) -> Tensor:
    """Return the size of the last digit of a loss that is made of these logits.

    >>> rounding(torch.tensor([[4.0, 1.0]])) / torch.finfo(torch.float32).eps
    tensor([4.])
    """
    return torch.finfo(logits.dtype).eps * logits.abs().amax(dim=1).clamp(min=1)


def gradient_numbers(target: Target) -> GradientNumbers:
    """Measure the gradients at the images and the confidence there, nearby and after one step of ascent.

    Three forward and three backward passes per image; the model is left as it was. The confidence is that
    of the paper's table on it; PGD-1 is one step of 1.25 eps from a random point.

    Args:
        target: at least one image, all correctly classified
    """
    model, threat = target.model, target.threat
    rows: list[dict[str, Tensor]] = []
    with untouched(model):
        for part, y, names in target.batches():
            logits, (ce, margin) = input_gradients(model, part, y, losses.cross_entropy, losses.margin)
            lost, margin_lost = is_lost(ce, logits, threat), is_lost(margin, logits, threat)
            near = threat.random_start(part, randomness.key(target.seed, names, "confidence"))
            near_logits, (uphill,) = input_gradients(model, near, y, losses.cross_entropy)
            one_up = climb(near, uphill, part, threat, float(usual_step_length(threat.eps, steps=1)))
            rows.append(
                {
                    "zero": (ce == 0).flatten(1).all(dim=1),
                    "margin_zero": (margin == 0).flatten(1).all(dim=1),
                    "vanishing": lost,
                    "saturated": logits.softmax(dim=1).gather(1, y[:, None])[:, 0] == 1,
                    "only_margin": lost & ~margin_lost,
                    "neither": lost & margin_lost,
                    "entries": (ce != 0).flatten(1).cpu().double().mean(dim=1),
                    "confidence_clean": _confidence(logits),
                    "confidence_random": _confidence(near_logits),
                    "confidence_pgd1": _confidence(logits_of(model, one_up)),
                }
            )
    columns = {name: torch.cat([row[name] for row in rows]).cpu().double() for name in rows[0]}
    means = {name: float(column.mean()) for name, column in columns.items()}
    spreads = {
        f"{name}_std": float(column.std(correction=0))
        for name, column in columns.items()
        if name.startswith("confidence")
    }
    return GradientNumbers(
        examples=len(target), precision=str(logits.dtype).removeprefix("torch."), **means, **spreads
    )


def _confidence(logits: Tensor) -> Tensor:
    return logits.softmax(dim=1).amax(dim=1)


def judge(
    found: GradientNumbers, *, gain: Judgment | None, way: Judgment | None, module: str = ""
) -> CheckResult:
    """Return what the gradients mean for attacks.

    A model without a gradient may be constant around every image, and then nothing is hidden; or there is a
    way that attacks without gradients find. A loss without a gradient may hide the way from attacks on it, or
    they agree with attacks on another one all the same.

    Args:
        found: what was measured
        gain: whether an attack gains by another loss; None if that was not tried
        way: whether attacks without gradients break what those with gradients leave; None if none was tried
        module: the module in which the gradient is lost, if it is known
    """

    def judged(limits: Thresholds, share: float) -> Judgment:
        return limits.judge(share, *wilson(round(share * found.examples), found.examples))

    blocked = judged(ZEROS, found.margin_zero)
    if blocked.finding != "sound":
        is_hidden = way is not None and way.finding != "sound"
        judgment = blocked if is_hidden else replace(blocked, finding="inconclusive", alternatives=())
        numbers = asdict(found) | ({LOST_IN: module} if module else {})
        return GRADIENTS.result(judgment, _blocked(found, module, way), numbers, advice=AGAINST_HIDING)
    zeros, rounded = judged(ZEROS, found.zero), judged(ROUNDED, max(found.vanishing, found.saturated))
    gravest = max(zeros, rounded, key=severity)
    if gravest.finding != "sound" and gain is None:
        gravest = replace(gravest, finding="inconclusive", alternatives=())
    elif gain is not None and gain.finding == "sound":
        gravest = Judgment("sound", 0.0)
    sentence = _sentence(found, gravest, gain, by_zeros=zeros.finding != "sound")
    return GRADIENTS.result(gravest, sentence, asdict(found), advice=("scaling", "autoattack"))


def examine(shared: SharedAttacks) -> CheckResult:
    """Measure the gradients at all images that are correctly classified."""
    target = shared.target.subset(shared.target.correct)
    found = gradient_numbers(target)
    way, module = None, ""
    if found.margin_zero > 0:
        way, module = _way(shared), lost_in(target)
    return judge(found, gain=judge_loss_gain(shared), way=way, module=module)


def has_gradient(target: Target) -> Tensor:
    """Return for which examples the margin has a gradient at the image, on the CPU."""
    found = []
    with untouched(target.model):
        for x, y, _ in target.batches():
            _, (gradient,) = input_gradients(target.model, x, y, losses.margin)
            found.append((gradient != 0).flatten(1).any(dim=1).cpu())
    return torch.cat(found)


def _way(shared: SharedAttacks) -> Judgment:
    """Return whether what attacks with gradients leave falls to others, or to more random points."""
    left = shared.survivors(*WHITE_BOX)
    found = [
        BLACK_BOX_LIMITS.judge(*counted(left & ~shared.robust(one))) for one in without_gradients(shared)
    ]
    before = shared.survivors(PGD_CE, PGD_MARGIN)
    # Where the gradient is zero, PGD stays at its random starts.
    found.append(LIMITS.compare(before, before & shared.robust(OFTENER))[0])
    return max(found, key=severity)


def _blocked(found: GradientNumbers, module: str, way: Judgment | None) -> str:
    where = f" (lost in module '{module}')" if module else ""
    sentence = f"No loss has a gradient on {percent(found.margin_zero)} of the images{where}"
    if way is not None and way.finding != "sound":
        return f"{sentence}, but attacks without gradients find a way: the model hides it, as rounding does."
    tried = "and no attack without them was run" if way is None else "and no attack without them breaks more"
    return f"{sentence}, {tried}: gradient attacks say nothing here."


def _sentence(found: GradientNumbers, judged: Judgment, gain: Judgment | None, *, by_zeros: bool) -> str:
    lost = max(found.vanishing, found.saturated)
    if judged.finding == "sound":
        sentence = (
            f"There are gradients to climb: zero on {percent(found.zero)} of the images, lost in rounding on"
            f" {percent(found.vanishing)}, softmax saturated on {percent(found.saturated)}."
        )
        is_odd = lost >= ROUNDED.suspicious
        return f"{sentence} Attacks on other losses find no more." if is_odd and gain else sentence
    if not by_zeros and found.saturated >= found.vanishing:
        sentence = (
            f"{percent(found.saturated)} of the softmaxes are saturated in {found.precision}, so attacks on"
            " the cross-entropy see next to no gradient there"
        )
    else:
        what, share = ("is zero", found.zero) if by_zeros else ("is lost in rounding", found.vanishing)
        sentence = f"The gradient of the cross-entropy {what} on {percent(share)} of the images"
    if gain is None:
        return f"{sentence}; PGD on both losses would show whether that matters."
    return f"{sentence}, and other losses find more: the loss stops attacks and not the model."
