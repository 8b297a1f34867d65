"""Can this attack climb here? Set it tasks on the model's own features that are known to have a solution."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from soar.attacks import run
from soar.attacks.attack import Examples
from soar.attacks.oracle import query_model
from soar.evaluation.checks import ON_CROSS_ENTROPY, ON_MARGINS, PGD_CE, PGD_MARGIN, SQUARE, SharedAttacks
from soar.evaluation.checks.comparisons import AGAINST_HIDING, BLACK_BOX_LIMITS
from soar.evaluation.checks.heads import FORWARD, INNER_POINTS, Binarized, binarize
from soar.evaluation.checks.indicators import roughness, unfinished
from soar.evaluation.diagnosis import Check, CheckResult, Judgment, Thresholds
from soar.evaluation.features import Features, find_features
from soar.evaluation.inspection import inspect
from soar.evaluation.interval import counted, share_of
from soar.evaluation.target import Target
from soar.model_state import probing, untouched, with_float64
from soar.text import percent

# Between two classes the cross-entropy has the direction of the margin, and could only saturate.
ATTACK = PGD_MARGIN
MOST_EXAMPLES, LEAST_EXAMPLES = 256, 10
# How many features are held at once, and in the heads of all images: a quarter of a gigabyte at most.
_AT_ONCE, _ALL = 2**24, 2**25

# On networks that hide nothing the attack solves all tasks but a few in a hundred. Where it fails on a tenth,
# it misses points that exist; where it fails on half, it says nothing about robustness.
LIMITS = Thresholds(suspicious=0.1, masked=0.5)
CLIMB = Check(
    "climb",
    "An attack on the features where a solution is known",
    f"examples on which {ATTACK.label} misses an adversarial point that is known to exist: {LIMITS.rule};"
    " where the gradient is zero only if an attack without gradients gains, and otherwise inconclusive",
)
# It is 0.02 for a smooth loss and on honest networks; five times that is a loss of another kind.
JAGGED = 0.1

Numbers = dict[str, float | int | str | None]


@dataclass(frozen=True, kw_only=True)
class Tasks:
    """What an attack made of tasks that have a solution, at most one for each image."""

    missed: Tensor
    """whether the attack found no solution, for every task"""
    stuck: Tensor
    """whether that is so because the gradient is zero where the attack starts"""
    images: int
    """for how many images a task was looked for"""
    separated: int
    """for how many of them a head tells the surface from the inside"""
    forward: float
    """forward passes per image, those for finding the tasks included"""
    backward: float


def attack_tasks(target: Target, features: Features) -> Tasks:
    """Fit a head for each image, and attack all of them at once.

    Args:
        target: the model, left as it was, images that are correctly classified, and the threat
        features: of the model
    """
    heads, lucky = binarize(target, features)
    rows = (heads.separates & ~lucky).nonzero()[:, 0]
    some = target.subset(rows)
    # The image itself is of the first class, at z = -0.999 or below.
    clean = torch.tensor([0.0, -1.0], dtype=torch.float64, device=target.device).expand(len(rows), 2)
    found = run(
        Binarized(features, heads.of(rows)),
        ATTACK,
        target.threat,
        some.images,
        torch.zeros_like(some.labels),
        index=some.index,
        seed=target.seed,
        batch_size=target.batch_size,
        clean_logits=clean,
    )
    missed = found.robust.cpu()
    at_missed = replace(some.subset(missed), model=Binarized(features, heads.of(rows[missed])))
    return Tasks(
        missed=missed,
        stuck=missed.masked_scatter(missed, _without_gradient(at_missed)),
        images=len(target),
        separated=int(heads.separates.sum()),
        forward=FORWARD + (int(found.forward.sum()) + int(missed.sum())) / len(target),
        backward=(int(found.backward.sum()) + int(missed.sum())) / len(target),
    )


def _without_gradient(target: Target) -> Tensor:
    """Return for which tasks the attack has no gradient at its start, which it then never leaves."""
    found = [torch.zeros(0, dtype=torch.bool, device="cpu")]
    if not len(target):
        # Not every model takes an empty batch.
        return found[0]
    with probing(target.model):
        for start, (x, _, index) in enumerate(target.batches()):
            examples = Examples.of(x, torch.zeros_like(index), index=index, seed=target.seed)
            examples = replace(examples, row=examples.row + start * target.batch_size)
            state = ATTACK.start(examples, target.threat)
            _, answer = query_model(target.model, ATTACK, state, target.threat, gradient=True)
            assert answer.gradient is not None
            found.append((answer.gradient == 0).flatten(1).all(dim=1).cpu())
    return torch.cat(found)


def examine(shared: SharedAttacks) -> CheckResult:
    """Attack the model's features where a solution is known, up to 256 images that are correctly classified.

    Args:
        shared: the attacks on the target, and the name of the module whose output is taken for features
    """
    odd = {note.kind for note in inspect(shared.target)} & {"random", "batch"}
    if odd:
        what = "are random" if "random" in odd else "depend on the other images of the batch"
        return _says_nothing(f"the model's outputs {what}, so no point is adversarial for certain", {})
    target = shared.target.subset(shared.target.correct)
    numbers: Numbers = {
        "roughness": roughness(target),
        f"{PGD_CE.label} unfinished": unfinished(shared),
    }
    target = replace(target, model=with_float64(target.model))
    features = find_features(target.model, target.x[:2], shared.features)
    if features is None:
        why = "the model calls no nn.Linear that takes features; name a module that returns them (--features)"
        return _says_nothing(why, numbers)
    with untouched(target.model):
        dimension = features(target.x[:1]).shape[1]
    numbers |= {"features": str(features), "dimension": dimension}
    most = min(MOST_EXAMPLES, _ALL // dimension)
    if most < LEAST_EXAMPLES:
        why = f"{features} has {dimension:,} numbers for each image, too many to fit heads to (--features)"
        return _says_nothing(why, numbers)
    at_once = max(1, min(target.batch_size, _AT_ONCE // (dimension * (INNER_POINTS + 1))))
    found = attack_tasks(replace(target.subset(slice(most)), batch_size=at_once), features)
    return judge(found, numbers, is_open=bool(found.stuck.any()) and _is_open(shared))


def judge(found: Tasks, numbers: Numbers, *, is_open: bool) -> CheckResult:
    """Return what the attack's failures mean.

    A gradient that is there and does not lead to the solution misleads attacks. One that is zero may be so
    because pixels are rounded on purpose, which makes some models robust; it counts only where an attack
    without gradients shows that this one is not.

    Args:
        found: the tasks, and what the attack made of them
        numbers: what else was measured
        is_open: whether an attack without gradients breaks what those with gradients leave
    """
    share, low, high = counted(found.missed)
    count, where = len(found.missed), numbers.get("features")
    numbers = {
        "tasks": count,
        "missed": share if count else None,
        "stuck": share_of(found.stuck) if count else None,
        "low": low,
        "high": high,
        "images": found.images,
        "separated": found.separated,
        "forward": found.forward,
        "backward": found.backward,
        **numbers,
    }
    if count < LEAST_EXAMPLES:
        return _says_nothing(_too_few(found, where), numbers)
    judged = LIMITS.judge(share, low, high)
    misled = LIMITS.judge(*counted(found.missed & ~found.stuck)[:2])
    if not is_open and judged.finding not in ("sound", misled.finding):
        judged = Judgment("inconclusive", judged.excess) if misled.finding == "sound" else misled
    if judged.finding == "sound":
        sentence = (
            f"Where a solution is known, {ATTACK.label} finds one on {percent(1 - share)} of {count} images:"
            f" it can climb as far as {where}. This check does not see what follows."
        )
    else:
        sentence = (
            f"On {percent(share)} of {count} images {ATTACK.label} finds nothing where a solution is known,"
            f" so it cannot climb as far as {where}, and images that it leaves need not be robust."
        )
        if judged.finding == "inconclusive":
            sentence += (
                " There is no gradient, but attacks without gradients break no more either: gradient attacks"
                " say nothing here."
            )
        rough = numbers.get("roughness")
        if isinstance(rough, float) and rough > JAGGED:
            sentence += f" A random step of eps/50 changes the loss {percent(rough)} as much as one of eps."
    return CLIMB.result(judged, sentence, numbers, advice=AGAINST_HIDING)


def _is_open(shared: SharedAttacks) -> bool:
    """Return whether an attack without gradients breaks what those with gradients leave."""
    left = shared.survivors(*ON_CROSS_ENTROPY, *ON_MARGINS)
    return BLACK_BOX_LIMITS.judge(*counted(left & ~shared.robust(SQUARE))[:2]).finding != "sound"


def _too_few(found: Tasks, where: object) -> str:
    if found.images < LEAST_EXAMPLES:
        return f"only {found.images} images are correctly classified, and {LEAST_EXAMPLES} are needed"
    if found.separated < LEAST_EXAMPLES:
        return (
            f"{where} tells a point on the surface of the ball from those inside on only {found.separated} of"
            f" {found.images} images; there are too few features, or they hardly change in the ball"
        )
    return f"random points solve the task on all but {len(found.missed)} of {found.separated} images"


def _says_nothing(why: str, numbers: Numbers) -> CheckResult:
    # Neither for the model nor against it: one that the check does not fit may still be called sound.
    return CLIMB.result(Judgment("sound", 0.0), f"Says nothing here: {why}.", {"skipped": why, **numbers})
