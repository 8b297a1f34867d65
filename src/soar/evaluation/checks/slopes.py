"""Slopes at the images, as attacks see them, and how sure the model is there."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from soar import losses, randomness
from soar.attacks.pgd import climb, usual_step_length
from soar.evaluation.target import Target
from soar.model_state import untouched
from soar.prediction import logits_of
from soar.threat import Threat


@dataclass(frozen=True, kw_only=True)
class GradientNumbers:
    """What the slopes at some images are like; shares from 0 to 1."""

    examples: int
    precision: str
    """of the logits, such as float32"""
    zero: float
    """share of examples where the gradient of the cross-entropy is zero in every pixel"""
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


def slopes(model: nn.Module, x: Tensor, labels: Tensor, *scores: losses.Loss) -> tuple[Tensor, list[Tensor]]:
    """Return the logits at some images and the slope of every score there, by one backward pass each.

    As attacks do it, a slope that is not a number counts as zero, and so does that of a model that cuts the
    graph.

    Args:
        model: the model, in the mode it should be asked in
        x: images as the model takes them
        labels: true classes
        scores: losses

    >>> slopes(nn.Identity(), torch.zeros(1, 2), torch.tensor([0]), losses.cross_entropy)[1]
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
    r"""Return where a slope is lost in rounding.

    \( \epsilon ||g||_* \le u \max(1, \max_i |z_i|) \), u the distance from 1 to the next number

    The left side is the most that the loss can change in the ball to first order, the right side what the
    loss is rounded by, since it is made of logits. Below it neither the loss nor the sign of its slope means
    anything: in float32 the slope's share of the label, p_y - 1, is itself only known to within u.

    Args:
        gradient: slope of the loss at the images
        logits: the model's answers there
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

    Three passes forward and three backward on each image; the model is left as it was. The confidence is that
    of the paper's table on it; PGD-1 is one step of 1.25 eps from a random point.

    Args:
        target: at least one image, all correctly classified
    """
    model, threat = target.model, target.threat
    rows: list[dict[str, Tensor]] = []
    with untouched(model):
        for part, y, names in target.batches():
            logits, (ce, margin) = slopes(model, part, y, losses.cross_entropy, losses.margin)
            lost, margin_lost = is_lost(ce, logits, threat), is_lost(margin, logits, threat)
            near = threat.random_start(part, randomness.key(target.seed, names, "confidence"))
            near_logits, (uphill,) = slopes(model, near, y, losses.cross_entropy)
            one_up = climb(near, uphill, part, threat, float(usual_step_length(threat.eps, steps=1)))
            rows.append(
                {
                    "zero": (ce == 0).flatten(1).all(dim=1),
                    "vanishing": lost,
                    "saturated": logits.softmax(dim=1).gather(1, y[:, None])[:, 0] == 1,
                    "only_margin": lost & ~margin_lost,
                    "neither": lost & margin_lost,
                    "entries": (ce != 0).flatten(1).double().mean(dim=1),
                    "confidence_clean": _confidence(logits),
                    "confidence_random": _confidence(near_logits),
                    "confidence_pgd1": _confidence(logits_of(model, one_up)),
                }
            )
    columns = {name: torch.cat([row[name] for row in rows]).double() for name in rows[0]}
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
