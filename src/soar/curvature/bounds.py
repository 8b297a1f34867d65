"""Proposition 1 of the paper: how much the loss can rise, from ||Hz||; as printed, and corrected."""

from __future__ import annotations

import math

from torch import Tensor


def printed_bound(loss: Tensor, norms: Tensor, radius: float) -> Tensor:
    r"""Return the bound of Proposition 1 as the paper prints it.

    \( l + \frac{\rho^2+1}{2} E||Hz|| - \frac12 \)

    It is *not* a bound: the proof takes E||Hz|| for the Frobenius norm of H, which can be larger by a factor
    of \( \sqrt{\pi/2} \), and is when H has rank one.

    Args:
        loss: l, one number an example
        norms: ||Hz|| for several z, shape (examples, samples)
        radius: \( \rho \), the radius of the l2 ball that holds the threat set
    """
    return loss + (radius**2 + 1) / 2 * norms.mean(dim=1) - 0.5


def corrected_bound(loss: Tensor, norms: Tensor, radius: float) -> Tensor:
    r"""Return a bound that holds, and is sharp where H has rank one.

    \( l + \sqrt{\pi/2} \frac{\rho^2+1}{2} E||Hz|| - \frac12 \)

    It follows from \( \sqrt{2/\pi} \, ||H||_F \le E||Hz|| \le ||H||_F \), with equality on the left
    for rank one.

    Args:
        loss: l, one number an example
        norms: ||Hz|| for several z, shape (examples, samples)
        radius: \( \rho \), the radius of the l2 ball that holds the threat set
    """
    return loss + math.sqrt(math.pi / 2) * (radius**2 + 1) / 2 * norms.mean(dim=1) - 0.5


def mean_square_bound(loss: Tensor, norms: Tensor, radius: float) -> Tensor:
    r"""Return a bound that holds because \( E||Hz||^2 = ||H||_F^2 \).

    \( l + \frac{\rho^2+1}{2} \sqrt{E||Hz||^2} - \frac12 \)

    Args:
        loss: l, one number an example
        norms: ||Hz|| for several z, shape (examples, samples)
        radius: \( \rho \), the radius of the l2 ball that holds the threat set
    """
    return loss + (radius**2 + 1) / 2 * norms.square().mean(dim=1).sqrt() - 0.5
