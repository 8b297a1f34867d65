"""The search inside an objective that climbs a function of its own, not one of the attacks' losses."""

from __future__ import annotations

from torch import Tensor

from soar import epsilon, randomness
from soar.attacks.pgd import climb, usual_step_length
from soar.curvature import LossAt, input_gradient
from soar.objectives import checks
from soar.threat import Threat

_NEAR = 1e-3


class Ascent:
    """Projected steepest ascent with a fixed number of steps.

    Args:
        steps: how many steps to take; each costs one forward and one backward pass
        step_size: the length of a step, such as "2/255"; by default a quarter of eps, more below ten steps

    Raises:
        UserError: if a value makes no sense
    """

    def __init__(self, steps: int, step_size: epsilon.Ratio | None = None) -> None:
        checks.count(steps=steps)
        self.steps = steps
        self.step_size = None if step_size is None else epsilon.parse(step_size, "objective.step_size")

    def climb(self, height: LossAt, threat: Threat, x: Tensor, start: Tensor) -> Tensor:
        """Return the points where the ascent ends, without a graph.

        Args:
            height: from points to one number an example
            threat: the ball around each image
            x: images in [0, 1]
            start: where to begin
        """
        length = self.step_size or usual_step_length(threat.eps, self.steps)
        return ascend(height, threat, x, start, steps=self.steps, step_size=float(length))


def ascend(
    height: LossAt,
    threat: Threat,
    x: Tensor,
    start: Tensor,
    *,
    steps: int,
    step_size: Tensor | float,
    radius: Tensor | None = None,
) -> Tensor:
    """Take steps of steepest ascent inside the ball.

    Args:
        height: from points to one number an example
        threat: the ball around each image
        x: images in [0, 1]
        start: where to begin
        steps: how many steps to take
        step_size: the length of a step, the same for all examples or one for each
        radius: of the ball, one an example, in place of eps
    """
    x, points = x.detach(), start.detach()
    for _ in range(steps):
        _, gradient = input_gradient(height, points)
        points = climb(points, gradient, x, threat, step_size, radius)
    return points


def near(x: Tensor, threat: Threat, *, index: Tensor, seed: int, step: int) -> Tensor:
    """Return points a thousandth away, where a divergence from the image's own answer has a slope.

    x + 0.001 N(0, I), brought back into the ball, which may be smaller than that while eps grows.

    Args:
        x: images in [0, 1]
        threat: the ball
        index: identity of each example
        seed: seed of the run
        step: the training step
    """
    keys = randomness.key(seed, index, "near start", step)
    return threat.project(x + _NEAR * randomness.normal(keys, tuple(x.shape[1:]), x.dtype), x)
