r"""Proposition 1 of the paper: the bound it prints, what breaks it, and two bounds that hold.

Printed (eq. 9), with \( \rho = \sqrt d \epsilon \):

    \( \max_{||\delta||_\infty \le \epsilon} \tilde l \le l + \frac{\rho^2+1}{2} E||Hz|| - \frac12 \)

The proof takes E||Hz|| for \( ||H||_F \), but
\( \sqrt{2/\pi} \, ||H||_F \le E||Hz|| \le ||H||_F \), on the left with equality for rank one. So

- \( \sqrt{\pi/2} \, E||Hz|| \) in its place gives a bound, the constant being the best possible;
- \( \sqrt{E||Hz||^2} = ||H||_F \) in its place gives a bound.

All losses here depend on one direction \( v = (1, ..., 1) / \sqrt d \), so that the maximum over the linf
ball is known exactly, and E||Hz|| comes from quadrature and not from samples.
"""

from __future__ import annotations

import math
from typing import Any, TypeVar

import torch
from torch import Tensor

Number = TypeVar("Number", float, Tensor)

CORRECTION = math.sqrt(math.pi / 2)
r"""the most by which \( ||H||_F \) exceeds E||Hz||, which Proposition 1 takes for it"""

# The integrand falls as exp(-|u| / 2) on both sides.
_REACH = 80.0
_SPACING = 0.25


def counterexample(dimension: int, eps: float) -> dict[str, Any]:
    r"""Compare the bounds on \( \frac12 (\rho v^T \delta + 1)^2 \), for which the printed one fails.

    H has rank one. The maximum is \( \frac12 (\rho^2 + 1)^2 \), the printed right-hand side
    \( \sqrt{2/\pi} \) times that.

    Args:
        dimension: d
        eps: the radius of the linf ball, any above 0

    >>> row = counterexample(3072, 8 / 255)
    >>> {name: round(row[name], 3) for name in ("maximum", "printed", "corrected", "mean square")}
    {'maximum': 8.095, 'printed': 6.459, 'corrected': 8.095, 'mean square': 8.095}
    """
    radius = math.sqrt(dimension) * eps
    augmented = torch.tensor([[radius**2, radius], [radius, 1.0]], dtype=torch.float64, device="cpu")
    maximum = 0.5 + (radius * radius + radius**2 / 2 * radius**2)
    return compare("counterexample, rank one", dimension, eps, 0.5, augmented, maximum)


def compare(
    name: str, dimension: int, eps: float, loss: float, augmented: Tensor, maximum: float
) -> dict[str, Any]:
    """Compare the largest value of a quadratic loss over an linf ball with the bounds; a row of a table.

    Args:
        name: what the loss is called
        dimension: d
        eps: the radius of the linf ball
        loss: its value in the middle
        augmented: the matrix H in the directions that the loss depends on; the others would only add zeros
        maximum: the largest value over the ball
    """
    radius = math.sqrt(dimension) * eps
    singular = torch.linalg.eigvalsh(augmented).abs()
    mean, frobenius = expected_norm(singular), float(singular.norm())
    printed = loss + norm_bound(mean, radius)
    return {
        "loss": name,
        "d": dimension,
        "eps": eps,
        "maximum": maximum,
        "printed": printed,
        "bounds it": "yes" if printed >= maximum else "NO",
        "corrected": loss + norm_bound(CORRECTION * mean, radius),
        "mean square": loss + norm_bound(frobenius, radius),
    }


def norm_bound(norm: Number, radius: float) -> Number:
    r"""Return \( \frac{\rho^2 + 1}{2} N - \frac12 \) for a norm N of the augmented matrix.

    Args:
        norm: spectral, Frobenius, or an estimate; one or many
        radius: rho

    >>> norm_bound(1.0, 2.0)
    2.0
    """
    return (radius**2 + 1) / 2 * norm - 0.5


def expected_norm(singular_values: Tensor) -> float:
    r"""Compute E||Hz|| for standard normal z by quadrature, without samples, to ten digits.

    With \( Q = ||Hz||^2 \) and \( \phi(t) = E e^{-tQ} = \prod_i (1 + 2 t \sigma_i^2)^{-1/2} \),

        \( E \sqrt Q = \frac{1}{2 \sqrt\pi} \int_0^\infty (1 - \phi(t)) \, t^{-3/2} dt \)

    in \( u = \log t \), where the trapezoidal rule converges exponentially.

    Args:
        singular_values: those of H; signs do not matter

    >>> round(expected_norm(torch.tensor([2.0])) / 2, 6)  # rank one: sqrt(2 / pi)
    0.797885
    >>> round(expected_norm(torch.ones(2)), 6)  # the mean length in the plane, sqrt(pi / 2)
    1.253314
    """
    frobenius = float(singular_values.double().norm())
    if frobenius == 0:
        return 0.0
    squares = (singular_values.double() / frobenius).square()
    u = torch.arange(-_REACH, _REACH + _SPACING, _SPACING, dtype=torch.float64, device="cpu")
    exponents = torch.log1p(2 * u.exp()[:, None] * squares).sum(dim=1) / 2
    integral = float((-torch.expm1(-exponents) * (-u / 2).exp()).sum()) * _SPACING
    return frobenius * integral / (2 * math.sqrt(math.pi))
