"""How far does the slope at the image reach? First- and second-order expansions against the loss itself."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import torch
from torch import Tensor, nn

from soar import losses
from soar.attacks import PGD, perturb
from soar.attacks.pgd import climb
from soar.curvature import exact_product
from soar.errors import UserError
from soar.evaluation.checks.judgment import Thresholds, not_made
from soar.evaluation.checks.shared import SharedAttacks
from soar.evaluation.checks.slopes import rounding, slopes
from soar.evaluation.diagnosis import Evidence
from soar.evaluation.interval import wilson
from soar.evaluation.target import Target
from soar.model_state import untouched
from soar.prediction import logits_of
from soar.text import percent
from soar.threat import Threat

CHECK = "taylor"
TITLE = "Taylor expansions of the loss along the attack"
ATTACK = PGD(steps=20, random_start=False)

# Medians over so many examples do not move any more, and the check stays one of the cheap ones.
MOST_EXAMPLES = 256
# Points on the straight way to the attacked point; eight are enough to see where the loss leaves the line.
POINTS = 8
# A loss that bends may give half or double of what its slope promised. A tenth of it is another loss.
KEPT = 0.1
# Standard, PGD-trained, TRADES, MMA, CURE and SOAR networks break none; a kink at the image breaks most.
BROKEN = Thresholds(suspicious=0.25)
RULE = (
    f"examples where PGD's first step from the image raises the loss by less than {KEPT:.0%} of what the"
    f" slope promised, or by no more than rounding: {BROKEN.rule}; the expansions decide nothing"
)


@dataclass(frozen=True, kw_only=True)
class TaylorNumbers:
    """How the loss differs from its expansions at the image; medians over examples, None where undefined."""

    examples: int
    broken: float
    """share of examples where PGD's first step from the image does not raise the loss as promised"""
    kept: float | None
    """what that step raised the loss by, over what was promised"""
    first_order_error: float | None
    """|l + g d - l(x + d)| / |l(x + d) - l|, d from the image to PGD's end"""
    second_order_error: float | None
    """the same with d H d / 2, H the Hessian at the image"""
    path_error: float | None
    """the same with H d measured by a step over the whole of d"""
    curvature: float | None
    """d H d / |d|^2 at the image"""
    path_curvature: float | None
    """the same with H d measured by a step over the whole of d"""
    nonlinearity: float | None
    """the largest |l(x + t d) - l - t g d| on the way, as LLR measures it"""
    cosine: float | None
    """between the slopes at the image and at PGD's end"""


def taylor_numbers(target: Target) -> TaylorNumbers:
    """Compare the cross-entropy on the way to PGD's end with its expansions at the image.

    Args:
        target: at least one image, all correctly classified; the model is left as it was
    """
    model, threat = target.model, target.threat
    rows: list[dict[str, Tensor]] = []
    with untouched(model):
        for part, y, names in target.batches():
            logits, (slope,) = slopes(model, part, y, losses.cross_entropy)
            row = _first_step(model, part, y, logits, slope, threat)
            # Without any slope there is no way to follow, and a model that cuts the graph refuses attacks.
            if bool((slope != 0).any()):
                end = perturb(model, ATTACK, threat, part, y, index=names, seed=target.seed, step=0)
                row |= _along(model, part, y, slope, end)
            rows.append(row)
    medians = {
        name: _median([row[name] for row in rows if name in row])
        for name in TaylorNumbers.__annotations__
        if name not in ("examples", "broken")
    }
    broken = torch.cat([row["broken"] for row in rows]).double()
    return TaylorNumbers(examples=len(target), broken=float(broken.mean()), **medians)


def judge(found: TaylorNumbers) -> Evidence:
    """Return whether the slope at the image leads anywhere.

    Args:
        found: what was measured
    """
    low, _ = wilson(round(found.broken * found.examples), found.examples)
    judged = BROKEN.judge(found.broken, low)
    is_sound = judged.finding == "sound"
    return Evidence(
        check=CHECK,
        title=TITLE,
        finding=judged.finding,
        sentence=_sentence(found, is_sound=is_sound),
        rule=RULE,
        numbers=asdict(found),
        excess=judged.excess,
        advice="" if is_sound else "soar evaluate RUN --attacks restarts",
    )


def examine(shared: SharedAttacks) -> Evidence:
    """Expand the loss around the first examples that are correctly classified."""
    target = shared.target.subset(shared.target.correct.nonzero()[:MOST_EXAMPLES, 0])
    if not len(target):
        return not_made(CHECK, TITLE, RULE, "no clean image is correctly classified")
    return judge(taylor_numbers(target))


def _first_step(
    model: nn.Module, x: Tensor, labels: Tensor, logits: Tensor, slope: Tensor, threat: Threat
) -> dict[str, Tensor]:
    """Return where PGD's first step from the image disappoints, and what it gains over what was promised."""
    step = climb(x, slope, x, threat, ATTACK.step_length(threat.eps))
    risen = losses.cross_entropy(logits_of(model, step), labels) - losses.cross_entropy(logits, labels)
    promised = _dot(slope, step - x)
    least = rounding(logits)
    # Written so that a loss that is not a number counts as broken.
    holds = risen > torch.maximum(KEPT * promised, least)
    return {"broken": ~holds, "kept": (risen / promised).masked_fill(promised <= least, torch.nan)}


def _along(model: nn.Module, x: Tensor, labels: Tensor, slope: Tensor, end: Tensor) -> dict[str, Tensor]:
    """Expand the loss along the way from the image to the attack's end; NaN where the end is the image.

    Between the kinks of its ReLUs a network's logits are linear, so H, differentiated twice at the image,
    holds the curvature of the softmax alone and nothing of the kinks on the way. A finite difference of
    slopes over the whole way, d (g(x + d) - g(x)), is the mean of d H d on it, kinks included; half of it
    added to the first order is the trapezoid rule. Both are reported.
    """
    d = end - x
    _, (last_slope,) = slopes(model, end, labels, losses.cross_entropy)
    way = [
        losses.cross_entropy(logits_of(model, x + t * d), labels)
        for t in torch.linspace(0, 1, POINTS + 1).tolist()
    ]
    first, across = _dot(slope, d), _dot(last_slope - slope, d)
    at_image = _curvature_along(model, x, labels, d)
    rise, length = way[-1] - way[0], _dot(d, d)

    def error(order: Tensor) -> Tensor:
        return (way[0] + order - way[-1]).abs() / rise.abs()

    off_the_line = [(loss - way[0] - k / POINTS * first).abs() for k, loss in enumerate(way)]
    found = {
        "first_order_error": error(first),
        "second_order_error": error(first + at_image / 2),
        "path_error": error(first + across / 2),
        "curvature": at_image / length,
        "path_curvature": across / length,
        "nonlinearity": torch.stack(off_the_line).amax(dim=0),
        "cosine": torch.cosine_similarity(slope.flatten(1), last_slope.flatten(1), dim=1, eps=0),
    }
    has_moved = length > 0
    return {name: column.masked_fill(~has_moved, torch.nan) for name, column in found.items()}


def _curvature_along(model: nn.Module, x: Tensor, labels: Tensor, d: Tensor) -> Tensor:
    """Return d H d at the image, NaN where the model cannot be differentiated twice."""
    try:
        product = exact_product(lambda points: losses.cross_entropy(logits_of(model, points), labels), x, d)
    except (RuntimeError, NotImplementedError, UserError):
        return torch.full_like(d.flatten(1)[:, 0], torch.nan)
    return _dot(product, d)


def _dot(first: Tensor, second: Tensor) -> Tensor:
    return (first * second).flatten(1).sum(dim=1)


def _median(columns: list[Tensor]) -> float | None:
    """Return the median of the numbers that are finite, if there are any."""
    numbers = torch.cat(columns) if columns else torch.empty(0)
    numbers = numbers[numbers.isfinite()]
    return float(numbers.double().median()) if len(numbers) else None


def _sentence(found: TaylorNumbers, *, is_sound: bool) -> str:
    if not is_sound:
        return (
            f"One step along the slope at the image does not raise the loss on {percent(found.broken)} of the"
            " images, so attacks that start there are misled."
        )
    told = (
        f"One step along the slope at the image raises the loss on {percent(1 - found.broken)} of the images."
    )
    if found.first_order_error is None or found.path_error is None:
        return told
    first, path = percent(found.first_order_error), percent(found.path_error)
    return (
        f"{told} The slope alone predicts the rise at PGD's end to within {first}, with the curvature on the"
        f" way to within {path}."
    )
