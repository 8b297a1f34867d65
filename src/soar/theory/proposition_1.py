r"""Proposition 1 of the paper: the bound it prints, what breaks it, and two bounds that hold.

Printed (eq. 9), with \( \rho = \sqrt d \epsilon \):

    \( \max_{||\delta||_\infty \le \epsilon} \tilde l \le l + \frac{\rho^2+1}{2} E||Hz|| - \frac12 \)

The proof takes E||Hz|| for \( ||H||_F \), but
\( \sqrt{2/\pi} \, ||H||_F \le E||Hz|| \le ||H||_F \), on the left with equality for rank one. So

- \( \sqrt{\pi/2} \, E||Hz|| \) in its place gives a bound, the constant being the best possible;
- \( \sqrt{E||Hz||^2} = ||H||_F \) in its place gives a bound.

All losses here depend on one direction \( v = (1, ..., 1) / \sqrt d \) or are small enough to try every
corner, so that the maximum over the linf ball is known exactly, and E||Hz|| comes from quadrature and not
from samples.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import torch

from soar import randomness
from soar.theory import Rows
from soar.theory.bounds import CORRECTION, expected_norm, norm_bound
from soar.theory.expansion import SecondOrderExpansion

_DIMENSION = 3072


@dataclass(frozen=True, eq=False)
class Case:
    """A quadratic loss whose maximum over an linf ball is known.

    Args:
        name: what it is
        dimension: d
        eps: the radius of the linf ball
        loss: its value in the middle
        expansion: gradient and Hessian in the directions that the loss depends on; the others would add
            only zeros to the augmented matrix
        maximum: the largest rise over the ball
    """

    name: str
    dimension: int
    eps: float
    loss: float
    expansion: SecondOrderExpansion
    maximum: float


def along_the_diagonal(
    name: str, dimension: int, eps: float, *, loss: float, gradient: float, curvature: float
) -> Case:
    r"""Return a loss \( l + b t + \frac c2 t^2 \) of \( t = v^T \delta \), which reaches the corner t = rho.

    Args:
        name: what it is
        dimension: d
        eps: the radius of the linf ball
        loss: l
        gradient: b, at least 0
        curvature: c, at least 0
    """
    radius = math.sqrt(dimension) * eps
    expansion = SecondOrderExpansion(
        torch.tensor([gradient], dtype=torch.float64), torch.tensor([[curvature]], dtype=torch.float64)
    )
    return Case(name, dimension, eps, loss, expansion, gradient * radius + curvature / 2 * radius**2)


def counterexample(dimension: int, eps: float) -> Case:
    r"""Return \( \frac12 (\rho v^T \delta + 1)^2 \), for which H has rank one and the printed bound fails.

    Its maximum is \( \frac12 (\rho^2 + 1)^2 \), the printed right-hand side \( \sqrt{2/\pi} \) times that.

    Args:
        dimension: d
        eps: the radius of the linf ball, any above 0
    """
    radius = math.sqrt(dimension) * eps
    return along_the_diagonal(
        "counterexample, rank one", dimension, eps, loss=0.5, gradient=radius, curvature=radius**2
    )


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
    return Case("random, full rank", dimension, eps, 1.0, expansion, expansion.maximum_at_corners(eps))


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


def bounds(case: Case) -> dict[str, float]:
    """Compute the printed bound and the two that hold, with exact expectations.

    Args:
        case: the loss

    >>> found = bounds(counterexample(3072, 8 / 255))
    >>> {name: round(value, 3) for name, value in found.items()}
    {'printed': 6.459, 'corrected': 8.095, 'mean square': 8.095}
    """
    radius = math.sqrt(case.dimension) * case.eps
    singular = case.expansion.singular_values
    mean, frobenius = expected_norm(singular), float(singular.norm())
    norms = {"printed": mean, "corrected": CORRECTION * mean, "mean square": frobenius}
    return {name: case.loss + norm_bound(norm, radius) for name, norm in norms.items()}


def table() -> Rows:
    """Compare the exact maximum with the bounds."""
    rows: Rows = []
    for case in cases():
        found = bounds(case)
        maximum = case.loss + case.maximum
        rows.append(
            {
                "loss": case.name,
                "d": case.dimension,
                "eps": case.eps,
                "maximum": maximum,
                "printed": found["printed"],
                "bounds it": "yes" if found["printed"] >= maximum else "NO",
                "corrected": found["corrected"],
                "mean square": found["mean square"],
            }
        )
    return rows


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
