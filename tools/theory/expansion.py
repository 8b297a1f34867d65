r"""The second-order expansion of a loss around one image, and how large it gets within a ball.

Everything is relative to the loss at the image: \( q(\delta) = g^T \delta + \frac12 \delta^T H_s \delta \).
Its maximum over an l2 ball is found exactly (a trust-region problem, whose dual has no gap). Over an linf
ball the problem is NP-hard; `climb_in_linf_ball` returns a value that is reached, a lower bound on it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from soar.curvature import LossAt, exact_product, input_gradient
from soar.double_backward import FastDoubleBackward

# Halving an interval so often leaves nothing of it in float64, however near to 0 the answer is.
_HALVINGS = 200
_CLIMB_ROUNDS = 300
_SWEEPS = 10
_SWEPT = 8
_MOST_CORNERS = 16


class Spectrum(NamedTuple):
    """Eigenvalues in ascending order, and the eigenvectors as columns."""

    values: Tensor
    vectors: Tensor


@dataclass(frozen=True, eq=False)
class SecondOrderExpansion:
    """The gradient and the Hessian of a loss at one image.

    Args:
        gradient: g, shape (d,)
        hessian: the symmetric matrix H_s, shape (d, d)
    """

    gradient: Tensor
    hessian: Tensor

    @cached_property
    def spectrum(self) -> Spectrum:
        """The eigenvalues and eigenvectors of the Hessian."""
        return Spectrum(*torch.linalg.eigh(self.hessian))

    @cached_property
    def augmented(self) -> Tensor:
        """The matrix H of eq. 6, with 1 in its corner."""
        g = self.gradient
        corner = torch.ones(1, 1, dtype=g.dtype, device=g.device)
        return torch.cat([torch.cat([self.hessian, g[:, None]], 1), torch.cat([g[None], corner], 1)])

    @cached_property
    def singular_values(self) -> Tensor:
        """The singular values of the augmented matrix."""
        values: Tensor = torch.linalg.eigvalsh(self.augmented)
        return values.abs()

    def at(self, deltas: Tensor) -> Tensor:
        """Return the value at each row of deltas."""
        linear = deltas @ self.gradient
        return linear + 0.5 * ((deltas @ self.hessian) * deltas).sum(dim=1)

    def maximum_in_l2_ball(self, radius: float) -> float:
        r"""Compute the exact maximum over \( ||\delta||_2 \le \rho \), whatever the signs of the curvature.

        It is the minimum of the dual, \( \frac12 [\lambda \rho^2 + \sum_i b_i^2 / (\lambda - \lambda_i)] \)
        over \( \lambda \ge \max(0, \lambda_{max}) \), with b the gradient in the basis of eigenvectors. The
        dual is convex in lambda, and bisection finds where its derivative is zero.

        Args:
            radius: rho

        >>> flat = SecondOrderExpansion(torch.tensor([3.0, 4.0]), torch.zeros(2, 2))
        >>> round(flat.maximum_in_l2_ball(2.0), 6)  # rho ||g||
        10.0
        """
        values, vectors = self.spectrum
        squares = (vectors.T @ self.gradient).square()
        least = values[-1].clamp(min=0)
        gaps = least - values

        def divided(by: Tensor) -> float:
            return float(torch.where(squares > 0, squares / by, 0).sum())

        low, high = 0.0, float(self.gradient.norm()) / radius
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            if divided((middle + gaps).square()) > radius**2:
                low = middle
            else:
                high = middle
        return 0.5 * ((float(least) + high) * radius**2 + divided(high + gaps))

    def climb_in_linf_ball(self, eps: float, starts: Tensor) -> float:
        r"""Return the best value that projected ascent reaches within \( ||\delta||_\infty \le \epsilon \).

        With steps of 1/c, where \( -c \) is the least eigenvalue of the Hessian, no step goes down, because
        \( q + \frac{c}{2} ||\delta||^2 \) is convex; with no negative one the steps go from corner to corner.
        Then, from the best points, each coordinate in turn goes where it is best for the others as they are.

        Args:
            eps: the radius of the ball
            starts: where to begin, one start per row; clipped to the ball
        """
        concave = max(-float(self.spectrum.values[0]), 0.0)
        step = 1 / max(concave, 1e-12 * float(self.hessian.norm()), torch.finfo(self.gradient.dtype).tiny)
        points = starts.clamp(-eps, eps)
        for _ in range(_CLIMB_ROUNDS):
            # The gradient is divided by its size first, so that a long step cannot overflow.
            ascent = self.gradient + points @ self.hessian
            size = ascent.abs().amax(dim=1, keepdim=True).clamp(min=torch.finfo(ascent.dtype).tiny)
            moved = (points + ascent / size * (step * size).clamp(max=1e9 * eps)).clamp(-eps, eps)
            if torch.equal(moved, points):
                break
            points = moved
        points = points[self.at(points).topk(min(_SWEPT, len(points))).indices]
        for _ in range(_SWEEPS):
            before = points.clone()
            self._sweep(points, eps)
            if torch.equal(before, points):
                break
        return float(self.at(points).max())

    def _sweep(self, points: Tensor, eps: float) -> None:
        """Maximize along each coordinate in turn, in place."""
        gradients = self.gradient + points @ self.hessian
        for i, curvature in enumerate(self.hessian.diagonal().tolist()):
            linear = gradients[:, i] - curvature * points[:, i]
            if curvature >= 0:
                best = torch.full_like(linear, eps).copysign(linear)
            else:
                best = (linear / -curvature).clamp(-eps, eps)
            gradients += torch.outer(best - points[:, i], self.hessian[i])
            points[:, i] = best

    def starts(self, eps: float, random: Tensor, vectors: int = 8) -> Tensor:
        """Return corners worth climbing from: along the gradient, along strong curvature, and random ones.

        Args:
            eps: the radius of the ball
            random: any numbers, one start per row; their signs are used
            vectors: how many eigenvectors of the largest eigenvalues to follow, in both directions
        """
        strongest = self.spectrum.vectors[:, -vectors:].T
        return eps * torch.cat([self.gradient[None], strongest, -strongest, random]).sign()

    def maximum_at_corners(self, eps: float) -> float:
        """Compute the exact maximum over an linf ball in few dimensions by trying every corner.

        That is where the maximum is when the expansion is concave along no coordinate.

        Args:
            eps: the radius of the ball

        Raises:
            ValueError: if there are too many corners, or the maximum need not be at one

        >>> bowl = SecondOrderExpansion(torch.zeros(2), torch.ones(2, 2))
        >>> bowl.maximum_at_corners(0.5)  # (1/2) (1/2 + 1/2)^2
        0.5
        """
        dimension = len(self.gradient)
        if dimension > _MOST_CORNERS or bool((self.hessian.diagonal() < 0).any()):
            raise ValueError("the maximum is at a corner that can be tried only in few convex dimensions")
        ends = torch.tensor([-eps, eps], dtype=self.gradient.dtype)
        corners = torch.cartesian_prod(*[ends] * dimension).reshape(-1, dimension)
        return float(self.at(corners).max())


def expand(loss: LossAt, x: Tensor, *, chunk: int = 112) -> SecondOrderExpansion:
    """Differentiate a loss twice at one image; exact almost everywhere for networks with kinks.

    Derivatives are taken in the precision of x and returned in float64.

    Args:
        loss: maps images to one loss per example
        x: one image, with a leading dimension of 1
        chunk: how many columns of the Hessian to compute at a time
    """
    _, gradient = input_gradient(loss, x)
    directions = torch.eye(x.numel(), dtype=x.dtype, device=x.device).reshape(-1, *x.shape[1:])
    with FastDoubleBackward():
        columns = [
            exact_product(loss, x.expand(len(part), *x.shape[1:]).contiguous(), part)
            for part in directions.split(chunk)
        ]
    hessian = torch.cat(columns).flatten(1).double()
    return SecondOrderExpansion(gradient.flatten().double(), (hessian + hessian.T) / 2)


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
