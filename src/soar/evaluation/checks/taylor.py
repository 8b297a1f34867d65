"""How far does the gradient at the image reach? First- and second-order expansions against the loss."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import torch
from torch import Tensor, nn

from soar import losses
from soar.attacks import PGD, perturb
from soar.attacks.pgd import climb
from soar.curvature import exact_product
from soar.errors import UserError
from soar.evaluation.checks import SharedAttacks
from soar.evaluation.checks.gradients import input_gradients, rounding
from soar.evaluation.diagnosis import Check, CheckResult, Thresholds
from soar.evaluation.interval import wilson
from soar.evaluation.target import Target
from soar.model_state import untouched
from soar.prediction import logits_of
from soar.shapes import per_example
from soar.text import percent
from soar.threat import Threat

ATTACK = PGD(steps=20, random_start=False)
_SCORES = (losses.cross_entropy, losses.margin)

# Medians over so many examples do not move any more, and the check stays one of the cheap ones.
MOST_EXAMPLES = 256
# Points on the straight way to the attacked point; eight are enough to see where the loss leaves the line.
POINTS = 8
# A loss that bends may give half or double of what its gradient predicts. A tenth of it is another loss.
KEPT = 0.1
# Standard, PGD-trained, TRADES, MMA, CURE and SOAR networks break none; a kink at the image breaks most.
BROKEN = Thresholds(suspicious=0.25)
TAYLOR = Check(
    "taylor",
    "Taylor expansions of the loss along the attack",
    f"examples where PGD's first step from the image raises the loss by less than {KEPT:.0%} of what the"
    f" gradient predicts: {BROKEN.rule}; a step whose predicted rise is lost in rounding, and the expansions,"
    " decide nothing",
)


@dataclass(frozen=True, kw_only=True)
class StepNumbers:
    """What PGD's first step from the image does to the loss."""

    examples: int
    broken: float
    """share of examples where it does not raise the loss as predicted"""
    flat: float
    """share where no rise beyond rounding is predicted, by the cross-entropy or the margin"""
    kept: float | None
    """what it raised the loss by, over what the gradient predicts: the median; None if undefined"""


@dataclass(frozen=True, kw_only=True)
class TaylorNumbers:
    """How the loss differs from its expansions at the image; medians over examples, None where undefined."""

    examples: int
    broken: float
    """share of examples where PGD's first step from the image does not raise the loss as predicted"""
    flat: float
    """share where no rise beyond rounding is predicted, by the cross-entropy or the margin"""
    kept: float | None
    """what that step raised the loss by, over what the gradient predicts"""
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
    """between the gradients at the image and at PGD's end"""


def step_numbers(target: Target) -> StepNumbers:
    """Take one step up the gradient: two forward passes and up to two backward passes per image.

    Args:
        target: at least one image, all correctly classified; the model is left as it was
    """
    rows = []
    with untouched(target.model):
        for part, y, _ in target.batches():
            logits, gradients = input_gradients(target.model, part, y, *_SCORES)
            rows.append(_first_step(target.model, part, y, logits, gradients, target.threat))
    return StepNumbers(
        examples=len(target),
        broken=_share(rows, "broken"),
        flat=_share(rows, "flat"),
        kept=_median([row["kept"] for row in rows]),
    )


def taylor_numbers(target: Target) -> TaylorNumbers:
    """Compare the cross-entropy on the way to PGD's end with its expansions at the image.

    Args:
        target: at least one image, all correctly classified; the model is left as it was
    """
    model, threat = target.model, target.threat
    rows: list[dict[str, Tensor]] = []
    with untouched(model):
        for part, y, names in target.batches():
            logits, gradients = input_gradients(model, part, y, *_SCORES)
            row = _first_step(model, part, y, logits, gradients, threat)
            gradient = gradients[0]
            # Without any gradient there is no way to follow, and a model that cuts the graph refuses attacks.
            if bool((gradient != 0).any()):
                end = perturb(model, ATTACK, threat, part, y, index=names, seed=target.seed, step=0)
                row |= _along(model, part, y, gradient, end)
            rows.append(row)
    medians = {
        name: _median([row[name] for row in rows if name in row])
        for name in TaylorNumbers.__annotations__
        if name not in ("examples", "broken", "flat")
    }
    broken, flat = _share(rows, "broken"), _share(rows, "flat")
    return TaylorNumbers(examples=len(target), broken=broken, flat=flat, **medians)


def judge(found: TaylorNumbers | StepNumbers) -> CheckResult:
    """Return whether the gradient at the image leads anywhere.

    Args:
        found: what was measured, of the first step alone or of the whole way
    """
    judged = BROKEN.judge(found.broken, *wilson(round(found.broken * found.examples), found.examples))
    sentence = _sentence(found, is_sound=judged.finding == "sound")
    return TAYLOR.result(judged, sentence, asdict(found), advice=("straight through", "average", "square"))


def examine(shared: SharedAttacks) -> CheckResult:
    """Expand the loss around the first examples that are correctly classified."""
    rows = shared.target.correct.nonzero()[:MOST_EXAMPLES, 0]
    return judge(taylor_numbers(shared.target.subset(rows)))


def _first_step(
    model: nn.Module, x: Tensor, labels: Tensor, logits: Tensor, gradients: list[Tensor], threat: Threat
) -> dict[str, Tensor]:
    """Return where PGD's first step from the image fails, and its gain over the predicted one.

    Where the cross-entropy is too flat to predict any rise, as where the softmax is saturated, the step is
    one up the margin, which saturates nowhere.
    """
    length = ATTACK.step_length(threat.eps)
    # A tenth of a promise can be told from nothing only if it is more than rounding.
    least = rounding(logits) / KEPT
    steps = [climb(x, gradient, x, threat, length) for gradient in gradients]
    promises = [_dot(gradient, step - x) for gradient, step in zip(gradients, steps, strict=True)]
    by_margin = promises[0] <= least
    step = torch.where(per_example(by_margin, x), steps[1], steps[0])
    predicted = torch.where(by_margin, promises[1], promises[0])
    there = logits_of(model, step)
    rises = [score(there, labels) - score(logits, labels) for score in _SCORES]
    risen = torch.where(by_margin, rises[1], rises[0])
    flat = predicted <= least
    # Written so that a loss that is not a number counts as broken.
    broken = ~(risen > KEPT * predicted) & ~flat
    return {"broken": broken, "flat": flat, "kept": (risen / predicted).masked_fill(flat, torch.nan)}


def _share(rows: list[dict[str, Tensor]], name: str) -> float:
    return float(torch.cat([row[name] for row in rows]).cpu().double().mean())


def _along(model: nn.Module, x: Tensor, labels: Tensor, gradient: Tensor, end: Tensor) -> dict[str, Tensor]:
    """Expand the loss along the way from the image to the attack's end; NaN where the end is the image.

    Between the kinks of its ReLUs a network's logits are linear, so H, differentiated twice at the image,
    holds the curvature of the softmax alone and nothing of the kinks on the way. A finite difference of
    gradients over the whole way, d (g(x + d) - g(x)), is the mean of d H d on it, kinks included; half of it
    added to the first order is the trapezoid rule. Both are reported.
    """
    d = end - x
    _, (last_gradient,) = input_gradients(model, end, labels, losses.cross_entropy)
    way = [
        losses.cross_entropy(logits_of(model, x + t * d), labels)
        for t in torch.linspace(0, 1, POINTS + 1, device="cpu").tolist()
    ]
    first, across = _dot(gradient, d), _dot(last_gradient - gradient, d)
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
        "cosine": torch.cosine_similarity(gradient.flatten(1), last_gradient.flatten(1), dim=1, eps=0),
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
    numbers = torch.cat(columns) if columns else torch.empty(0, device="cpu")
    numbers = numbers[numbers.isfinite()]
    return float(numbers.cpu().double().median()) if len(numbers) else None


def _sentence(found: TaylorNumbers | StepNumbers, *, is_sound: bool) -> str:
    along = "One step along the gradient at the image"
    if not is_sound:
        return (
            f"{along} does not raise the loss as predicted on {percent(found.broken)} of the images, so"
            " attacks that start there are misled."
        )
    if found.flat == 1:
        return f"{along} cannot be judged: the rise that it predicts is lost in rounding on every image."
    sentence = f"{along} raises the loss on {percent(1 - found.broken - found.flat)} of the images"
    sentence += f", on {percent(found.flat)} the predicted rise is lost in rounding." if found.flat else "."
    if isinstance(found, StepNumbers) or found.first_order_error is None or found.path_error is None:
        return sentence
    first, path = percent(found.first_order_error), percent(found.path_error)
    return (
        f"{sentence} The gradient alone predicts the rise at PGD's end to within {first}, with the curvature"
        f" on the way to within {path}."
    )
