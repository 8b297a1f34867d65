"""The true adversary: how far the loss itself can be pushed up within a ball, as far as a search finds."""

from __future__ import annotations

import math
from functools import partial

import torch
from torch import Tensor

from soar import randomness
from soar.curvature import LossAt, input_gradient
from soar.shapes import per_example
from soar.threat import Linf, Threat


def largest_gain(
    loss: LossAt,
    x: Tensor,
    threat: Threat,
    *,
    in_pixel_range: bool,
    index: Tensor,
    seed: int,
    steps: int = 40,
    starts: int = 4,
) -> Tensor:
    """Search a ball by projected ascent for the largest rise of the loss, a lower bound on the maximum.

    Steps shrink from the radius to zero along a cosine; the first start is the image itself, the others are
    random.

    Args:
        loss: maps images to one loss per example
        x: images, the centers of the balls
        threat: norm and radius of the ball
        in_pixel_range: whether points must stay in [0, 1]; Proposition 1 speaks of the whole ball
        index: identity of each example
        seed: seed of the random starts
        steps: steps from each start
        starts: number of starts
    """
    project = threat.project if in_pixel_range else partial(_project, threat)
    origin = loss(x).detach()
    best = origin.clone()
    for start in range(starts):
        keys = randomness.key(seed, index, "theory adversary", start)
        noise = 2 * randomness.uniform(keys, tuple(x.shape[1:]), x.dtype) - 1
        points = project(x + threat.radius * noise, x) if start else x
        for step in range(steps + 1):
            values, gradient = input_gradient(loss, points)
            best = torch.maximum(best, values)
            length = threat.radius * (1 + math.cos(math.pi * step / steps)) / 2
            points = project(points + length * threat.ascent(gradient), x)
    return best - origin


def _project(threat: Threat, points: Tensor, x: Tensor) -> Tensor:
    """Return the nearest points of the whole ball, pixel range or not."""
    delta, radius = points - x, threat.radius
    if isinstance(threat, Linf):
        return x + delta.clamp(-radius, radius)
    excess = (threat.norm(delta) / radius).clamp(min=1)
    return x + delta / per_example(excess, delta)
