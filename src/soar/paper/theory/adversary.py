"""The true adversary: how far the loss itself can be pushed up within a ball, as far as a search finds."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from soar import randomness
from soar.curvature import LossAt, input_gradient
from soar.shapes import per_example
from soar.threat import Linf, Threat


@dataclass(frozen=True)
class Ball:
    """A ball around each image, with or without the condition that pixels stay in [0, 1].

    Proposition 1 speaks of the whole ball; an image outside the pixel range cannot be shown to a camera.

    Args:
        threat: norm and radius
        in_pixel_range: whether points must be images
    """

    threat: Threat
    in_pixel_range: bool = False

    def project(self, points: Tensor, x: Tensor) -> Tensor:
        """Give the nearest points of the ball."""
        if self.in_pixel_range:
            return self.threat.project(points, x)
        delta, radius = points - x, self.threat.radius
        if isinstance(self.threat, Linf):
            return x + delta.clamp(-radius, radius)
        excess = (self.threat.norm(delta) / radius).clamp(min=1)
        return x + delta / per_example(excess, delta)


def highest_gain(
    loss: LossAt, x: Tensor, ball: Ball, *, steps: int, starts: int, index: Tensor, seed: int
) -> Tensor:
    """Give the largest rise of the loss that projected ascent meets on its way, example by example.

    A lower bound on the maximum over the ball. Steps shrink from the radius to nothing along a cosine; the
    first start is the image itself, the others are random.

    Args:
        loss: from images to one number an example
        x: images, the centers of the balls
        ball: where to look
        steps: steps from each start
        starts: how many starts
        index: identity of each example
        seed: seed of the random starts
    """
    threat = ball.threat
    origin = loss(x).detach()
    best = origin.clone()
    for start in range(starts):
        keys = randomness.key(seed, index, "theory adversary", start)
        noise = 2 * randomness.uniform(keys, tuple(x.shape[1:]), x.dtype) - 1
        points = ball.project(x + threat.radius * noise, x) if start else x
        for step in range(steps + 1):
            values, gradient = input_gradient(loss, points)
            best = torch.maximum(best, values)
            length = threat.radius * (1 + math.cos(math.pi * step / steps)) / 2
            points = ball.project(points + length * threat.ascent(gradient), x)
    return best - origin
