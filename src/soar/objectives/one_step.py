"""Attacks of a single step inside an objective: a start, the gradient there, and where the step ends."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor, nn

from soar import randomness
from soar.attacks.oracle import precise
from soar.curvature import input_gradient
from soar.losses import cross_entropy
from soar.model_state import probing
from soar.prediction import logits_of
from soar.threat import Linf, Threat


class Step(NamedTuple):
    """One step of an attack, without a graph."""

    points: Tensor
    """where it ended"""
    gradient: Tensor
    """of the cross-entropy where it began"""


def gradient_at(model: nn.Module, points: Tensor, y: Tensor) -> Tensor:
    """Return the gradient of the cross-entropy by the pixels, in one forward and one backward pass.

    Args:
        model: used in eval mode, without parameter gradients, and left as it was
        points: where it is taken
        y: true classes
    """
    with probing(model):
        _, gradient = input_gradient(
            lambda images: cross_entropy(precise(logits_of(model, images)), y), points.detach()
        )
    # NaN would spoil the whole batch; zero only costs the example this step.
    return gradient.nan_to_num(nan=0.0)


def step_from(model: nn.Module, threat: Threat, start: Tensor, y: Tensor, length: float) -> Step:
    """Take one step of steepest ascent of the cross-entropy, within the pixel range but not the ball.

    Args:
        model: used in eval mode, without parameter gradients, and left as it was
        threat: its norm decides the direction
        start: where the step begins
        y: true classes
        length: the length of the step
    """
    gradient = gradient_at(model, start, y)
    return Step(threat.step(start, gradient, length).clamp_(0, 1).detach(), gradient)


def noisy_step(
    model: nn.Module,
    threat: Threat,
    x: Tensor,
    y: Tensor,
    *,
    noise: float = 2.0,
    step_eps_fraction: float = 1.0,
    index: Tensor,
    seed: int,
    step: int,
) -> Step:
    r"""Take the step of N-FGSM: from a point of a larger ball, and not projected back to the smaller.

    x' = clip(x + n + a eps argmax_{||v|| <= 1} <g(x + n), v>),  n uniform in the ball of radius k eps

    with x + n kept in the pixel range. So x' may be (k + a) eps away from the image.

    Args:
        model: used in eval mode, without parameter gradients, and left as it was
        threat: what the adversary may do
        x: images in [0, 1]
        y: true classes
        noise: k, the radius of the noise as a multiple of eps
        step_eps_fraction: a, the length of the step as a fraction of eps
        index: identity of each example
        seed: seed of the run
        step: the training step
    """
    radius = x.new_full((len(x),), noise * threat.radius)
    start = threat.random_start(x, randomness.key(seed, index, "nfgsm noise", step), radius)
    return step_from(model, threat, start, y, step_eps_fraction * threat.radius)


def random_corner(x: Tensor, threat: Threat, keys: Tensor, radius: float) -> Tensor:
    """Return points with every pixel moved by the radius, up or down.

    For l2 and l1 they are random points of the ball of that radius.

    Args:
        x: images in [0, 1]
        threat: what the adversary may do
        keys: one key per example
        radius: at most eps
    """
    if isinstance(threat, Linf):
        return threat.project(x + radius * randomness.sign(keys, tuple(x.shape[1:]), x.dtype), x)
    return threat.random_start(x, keys, x.new_full((len(x),), radius))
