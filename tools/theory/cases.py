"""The losses on which the bounds of Proposition 1 are compared with the exact maximum."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import torch
from tools.theory.expansion import SecondOrderExpansion

from soar import randomness
from soar.theory import Rows
from soar.theory.proposition_1 import compare, counterexample

_DIMENSION = 3072


def table() -> Rows:
    """Compare the exact maximum of several losses with the bounds."""
    stationary = partial(along_the_diagonal, dimension=_DIMENSION, loss=1.0, gradient=0.0)
    return [
        counterexample(8, 0.1),
        counterexample(_DIMENSION, 8 / 255),
        stationary("constant", eps=2 / 255, curvature=0.0),
        stationary("constant", eps=8 / 255, curvature=0.0),
        stationary("no gradient, curved", eps=8 / 255, curvature=10.0),
        stationary("no gradient, curved", eps=16 / 255, curvature=10.0),
        random_quadratic(10, 0.1),
        random_quadratic(10, 1.0),
    ]


def along_the_diagonal(
    name: str, dimension: int, eps: float, *, loss: float, gradient: float, curvature: float
) -> dict[str, Any]:
    r"""Compare the bounds on \( l + b t + \frac c2 t^2 \) of \( t = v^T \delta \), largest at t = rho.

    Args:
        name: what it is
        dimension: d
        eps: the radius of the linf ball
        loss: l
        gradient: b, at least 0
        curvature: c, at least 0
    """
    radius = math.sqrt(dimension) * eps
    augmented = torch.tensor([[curvature, gradient], [gradient, 1.0]], dtype=torch.float64)
    maximum = loss + gradient * radius + curvature / 2 * radius**2
    return compare(name, dimension, eps, loss, augmented, maximum)


def random_quadratic(dimension: int, eps: float, seed: int = 0) -> dict[str, Any]:
    """Compare the bounds on a convex loss of full rank, its maximum found by trying every corner.

    Args:
        dimension: d, small
        eps: the radius of the linf ball
        seed: seed of the coefficients
    """
    keys = randomness.key(seed, 0, "theory quadratic")
    numbers = randomness.normal(keys, (dimension + 1, dimension), torch.float64)[0]
    expansion = SecondOrderExpansion(numbers[0], numbers[1:].T @ numbers[1:] / dimension)
    maximum = 1.0 + expansion.maximum_at_corners(eps)
    return compare("random, full rank", dimension, eps, 1.0, expansion.augmented, maximum)


def curve(dimension: int = _DIMENSION, points: int = 33) -> Rows:
    """Compare the bounds on the counterexample for growing radii of the ball.

    Args:
        dimension: d
        points: how many radii, from 0 to 16/255
    """
    return [counterexample(dimension, 16 / 255 * number / (points - 1)) for number in range(1, points)]
