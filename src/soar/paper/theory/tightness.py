r"""How much each step of SOAR's derivation gives away, on a trained network.

The derivation goes from the loss that an adversary reaches in an linf ball to what SOAR computes:

1. the loss is replaced by its second-order expansion (eq. 3);
2. the linf ball of radius eps by the l2 ball of radius \( \rho = \sqrt d \epsilon \) (eq. 7);
3. the maximum there by \( \frac{\rho^2+1}{2} ||H||_2 - \frac12 \), H the augmented matrix (eq. 6);
4. the spectral by the Frobenius norm;
5. that by E||Hz|| (not a bound: Proposition 1 as printed), or by \( \sqrt{\pi/2} \, E||Hz|| \) (corrected);
6. the expectation by a mean over a few z;
7. Hz by a finite difference of gradients with step h (eq. 10).

Everything is a rise above the loss at the point of expansion. Exact, up to rounding: the first-order maximum,
the second-order maximum over the l2 ball, both norms, and E||Hz||. Lower bounds, because they are what a
search found: the losses, and the second-order maximum over the linf ball. Estimates: the means over z.

The Hessian is dense and exact, which for a network of ReLUs means: exact between the kinks. A finite
difference sees the kinks too, and its "Hessian" is no matrix: it is not linear in z, so it has no spectrum,
and only its ||Hz|| is measured.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from soar import randomness
from soar.curvature import (
    Direction,
    LossAt,
    augmented_norm,
    augmented_product,
    difference_product,
    draw_direction,
)
from soar.model_state import probing
from soar.objectives.starts import Start
from soar.paper.theory.adversary import Ball, highest_gain
from soar.paper.theory.bounds import corner_free_bound, expected_norm, norm_bound
from soar.paper.theory.expansion import Expansion, expand
from soar.paper.theory.subject import Subject
from soar.progress import Mode, Progress
from soar.threat import L2, Linf

EXACT = "exact"
STEPS = (0.01, 0.5)
"""the finite-difference steps h: the paper's, and one near the length of an attack"""

CORRECTION = math.sqrt(math.pi / 2)
_RANDOM_CORNERS = 24
_BATCH = 64

SHOWN = "loss, linf, pixel range"
LOSS = "loss, linf"
LOSS_L2 = "loss, l2"
FIRST = "first order, linf"
SECOND = "second order, linf"
SECOND_L2 = "second order, l2"
SPECTRAL = "spectral norm"
FROBENIUS = "Frobenius norm"
CORNER_FREE = "Frobenius, corner 0"
EXPECTED = "E||Hz||, printed"
CORRECTED = "E||Hz||, corrected"


class Search(NamedTuple):
    """How hard the true adversary looks."""

    steps: int = 40
    starts: int = 4


class Example(NamedTuple):
    """What was found at one image."""

    gains: dict[str, float]
    """rises of the loss, or bounds on them, by name"""
    norms: dict[str, Tensor]
    """||Hz|| for every z, by the way Hz was computed"""
    stable_rank: float
    """||H||_F^2 / ||H||_2^2: how many directions share the curvature"""


def bounds_of(expansion: Expansion, threat: Linf, corners: Tensor) -> dict[str, float]:
    """Give the maxima and bounds of steps 1 to 5 for one expansion.

    Args:
        expansion: slope and curvature
        threat: the linf ball
        corners: random numbers, one start of the search in the linf ball a row
    """
    eps, radius = threat.radius, threat.enclosing_l2_radius(len(expansion.gradient))
    singular = expansion.singular_values
    mean = expected_norm(singular)
    return {
        FIRST: eps * float(expansion.gradient.abs().sum()),
        SECOND: expansion.climb_in_linf_ball(eps, expansion.starts(eps, corners)),
        SECOND_L2: expansion.maximum_in_l2_ball(radius),
        SPECTRAL: norm_bound(float(singular.max()), radius),
        FROBENIUS: norm_bound(float(singular.norm()), radius),
        CORNER_FREE: corner_free_bound(expansion, radius),
        EXPECTED: norm_bound(mean, radius),
        CORRECTED: norm_bound(CORRECTION * mean, radius),
    }


def sampled_norms(loss: LossAt, x: Tensor, expansion: Expansion, z: Direction) -> dict[str, Tensor]:
    """Give ||Hz|| for every z, with the exact Hessian and with finite differences.

    Args:
        loss: from images to one number an example
        x: one image, with a leading dimension of 1
        expansion: slope and curvature there
        z: directions in the shape of the image
    """
    flat = torch.cat([z.pixels.flatten(1), z.last[:, None]], dim=1).double()
    norms = {EXACT: torch.linalg.vector_norm(flat @ expansion.augmented, dim=1)}
    points = x.expand_as(z.pixels)
    gradient = expansion.gradient.reshape(x.shape).to(x.dtype).expand_as(z.pixels)
    for step in STEPS:
        product = difference_product(loss, points, gradient, z.pixels, step)
        norms[difference_name(step)] = augmented_norm(augmented_product(product, gradient, z)).double()
    return norms


def measure(
    subject: Subject,
    *,
    samples: int,
    start: str = "zero",
    search: Search = Search(),  # noqa: B008 - a value
    seed: int = 0,
    mode: Mode = "quiet",
) -> list[Example]:
    """Measure every quantity at every image of a subject.

    Args:
        subject: network, images, threat
        samples: how many z
        start: where to expand, as SOAR has it: zero for the image itself; pgd-1 for one step of PGD with half
            of eps, which leaves the other half for the ball
        search: how hard the true adversary looks
        seed: seed of starts and directions
        mode: how to show progress
    """
    begin = Start(start, share=0.5)
    model, y, index = subject.model, subject.y, subject.index
    x = begin.points(model, subject.threat, subject.x, y, index=index, seed=seed, step=0)
    threat = subject.threat.scaled(begin.remaining)
    found = []
    with probing(model), Progress(len(x), "measuring", mode) as progress:
        reached = _losses(subject, x, threat, search, seed)
        for row in range(len(x)):
            point, identity, loss = x[row : row + 1], index[row : row + 1], subject.loss(y[row])
            expansion = expand(loss, point)
            z = draw_direction(_keys(identity, "z", samples, seed), tuple(x.shape[1:]), x.dtype)
            corners = randomness.normal(
                _keys(identity, "corners", _RANDOM_CORNERS, seed), (point.numel(),), torch.float64
            )
            gains = {name: float(values[row]) for name, values in reached.items()}
            found.append(
                Example(
                    gains={**gains, **bounds_of(expansion, threat, corners)},
                    norms=sampled_norms(loss, point, expansion, z),
                    stable_rank=float(
                        (expansion.singular_values / expansion.singular_values.max()).square().sum()
                    ),
                )
            )
            progress.advance(1)
    return found


def _losses(subject: Subject, x: Tensor, threat: Linf, search: Search, seed: int) -> dict[str, Tensor]:
    """Let the true adversary look in each of the balls; what lies in one lies in the next."""
    around = L2(threat.enclosing_l2_radius(x[0].numel()))
    balls = {SHOWN: Ball(threat, in_pixel_range=True), LOSS: Ball(threat), LOSS_L2: Ball(around)}
    batches = list(zip(x.split(_BATCH), subject.y.split(_BATCH), subject.index.split(_BATCH), strict=True))
    reached: dict[str, Tensor] = {}
    best = torch.zeros(len(x), dtype=torch.float64)
    for name, ball in balls.items():
        gains = [
            highest_gain(
                subject.loss(y), part, ball, steps=search.steps, starts=search.starts, index=index, seed=seed
            )
            for part, y, index in batches
        ]
        best = torch.maximum(best, torch.cat(gains))
        reached[name] = best
    return reached


def _keys(identity: Tensor, purpose: str, count: int, seed: int) -> Tensor:
    """Give one image as many keys as it needs."""
    return randomness.key(seed, identity.expand(count), f"theory {purpose}", torch.arange(count))


def radius_of(subject: Subject, start: str) -> float:
    """Give rho, the radius of the l2 ball that holds what the start leaves of the threat."""
    left = subject.threat.scaled(Start(start, share=0.5).remaining)
    return left.enclosing_l2_radius(subject.x[0].numel())


def difference_name(step: float) -> str:
    """Name Hz by finite differences with a step.

    >>> difference_name(0.01)
    'h 0.01'
    """
    return f"h {step:g}"
