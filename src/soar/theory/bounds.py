r"""The bounds on a second-order expansion that Proposition 1 passes through, one after the other.

As in `soar.theory.expansion`, all are relative to the loss at the image. With the augmented matrix H
and \( A = \rho^2 + 1 \), the proof goes from the maximum over the l2 ball
to \( \frac{A}{2} ||H||_2 - \frac12 \), from there to \( \frac{A}{2} ||H||_F - \frac12 \),
and from there to \( \frac{A}{2} E||Hz|| - \frac12 \).
"""

from __future__ import annotations

import math
from typing import TypeVar

import torch
from torch import Tensor

from soar.theory.expansion import SecondOrderExpansion

Number = TypeVar("Number", float, Tensor)

CORRECTION = math.sqrt(math.pi / 2)
r"""the most by which \( ||H||_F \) exceeds E||Hz||, which Proposition 1 takes for it"""

# The integrand falls as exp(-|u| / 2) on both sides.
_REACH = 80.0
_SPACING = 0.25


def norm_bound(norm: Number, radius: float) -> Number:
    r"""Return \( \frac{\rho^2 + 1}{2} N - \frac12 \) for a norm N of the augmented matrix.

    Args:
        norm: spectral, Frobenius, or an estimate; one or many
        radius: rho

    >>> norm_bound(1.0, 2.0)
    2.0
    """
    return (radius**2 + 1) / 2 * norm - 0.5


def corner_free_bound(expansion: SecondOrderExpansion, radius: float) -> float:
    r"""Return the Frobenius bound of the same proof with \( \delta' = [\delta; \rho] \) and 0 in the corner.

    \( \sqrt{\rho^4 ||H_s||_F^2 + 2 \rho^2 ||g||^2} \), which is 0 for a flat loss; the paper's corner of 1
    leaves \( \rho^2 / 2 \) there.

    Args:
        expansion: gradient and Hessian
        radius: rho

    >>> flat = SecondOrderExpansion(torch.tensor([1.0, 1.0]), torch.zeros(2, 2))
    >>> corner_free_bound(flat, 3.0)  # sqrt(2) rho ||g||
    6.0
    """
    squares = radius**4 * expansion.hessian.square().sum() + 2 * radius**2 * expansion.gradient.square().sum()
    return math.sqrt(float(squares))


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
    u = torch.arange(-_REACH, _REACH + _SPACING, _SPACING, dtype=torch.float64)
    exponents = torch.log1p(2 * u.exp()[:, None] * squares).sum(dim=1) / 2
    integral = float((-torch.expm1(-exponents) * (-u / 2).exp()).sum()) * _SPACING
    return frobenius * integral / (2 * math.sqrt(math.pi))
