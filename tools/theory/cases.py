"""The losses on which the bounds of Proposition 1 are compared with the exact maximum."""

from __future__ import annotations

from functools import partial

import torch
from tools.theory.expansion import SecondOrderExpansion

from soar import randomness
from soar.theory import Rows
from soar.theory.proposition_1 import Case, along_the_diagonal, bounds, counterexample

_DIMENSION = 3072


def cases() -> list[Case]:
    """Return the losses of the table."""
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


def random_quadratic(dimension: int, eps: float, seed: int = 0) -> Case:
    """Return a convex loss of full rank, its maximum found by trying every corner.

    Args:
        dimension: d, small
        eps: the radius of the linf ball
        seed: seed of the coefficients
    """
    keys = randomness.key(seed, 0, "theory quadratic")
    numbers = randomness.normal(keys, (dimension + 1, dimension), torch.float64)[0]
    expansion = SecondOrderExpansion(numbers[0], numbers[1:].T @ numbers[1:] / dimension)
    maximum = expansion.maximum_at_corners(eps)
    return Case("random, full rank", dimension, eps, 1.0, expansion.augmented, maximum)


def curve(dimension: int = _DIMENSION, points: int = 33) -> Rows:
    """Compute the counterexample and its bounds for growing radii of the ball.

    Args:
        dimension: d
        points: how many radii, from 0 to 16/255
    """
    rows: Rows = []
    for number in range(1, points):
        case = counterexample(dimension, 16 / 255 * number / (points - 1))
        rows.append({"eps": case.eps, "maximum": case.loss + case.maximum, **bounds(case)})
    return rows
