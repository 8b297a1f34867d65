"""Projected gradient ascent inside an objective, on a function of its own instead of an attack's loss."""

from __future__ import annotations

from torch import Tensor

from soar import randomness
from soar.attacks.pgd import climb, usual_step_length
from soar.curvature import LossAt, input_gradient
from soar.threat import Threat

_NEAR = 1e-3


def ascend(
    height: LossAt,
    threat: Threat,
    x: Tensor,
    start: Tensor,
    *,
    steps: int,
    step_size: Tensor | float | None = None,
    radius: Tensor | None = None,
) -> Tensor:
    """Take steps of steepest ascent inside the ball and return the last points, without a graph.

    Args:
        height: maps points to one value per example
        threat: the ball around each image
        x: images in [0, 1]
        start: where to begin
        steps: how many steps to take; each costs one forward and one backward pass
        step_size: the length of a step, one for all examples or one per example; by default a quarter of eps,
            more below ten steps
        radius: the radius of each example's ball, in place of eps
    """
    if step_size is None:
        step_size = float(usual_step_length(threat.eps, steps))
    x, points = x.detach(), start.detach()
    for _ in range(steps):
        _, gradient = input_gradient(height, points)
        points = climb(points, gradient, x, threat, step_size, radius)
    return points


def near(x: Tensor, threat: Threat, *, index: Tensor, seed: int, step: int) -> Tensor:
    """Return points a thousandth away, because a divergence has no gradient at the image itself.

    x + 0.001 N(0, I), projected to the ball, which may be smaller than that while eps warms up.

    Args:
        x: images in [0, 1]
        threat: the ball
        index: identity of each example
        seed: seed of the run
        step: the training step
    """
    keys = randomness.key(seed, index, "near start", step)
    return threat.project(x + _NEAR * randomness.normal(keys, tuple(x.shape[1:]), x.dtype), x)
