r"""How tight each step of SOAR's derivation is on a trained network.

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

from typing import NamedTuple

import torch
from tools.theory.adversary import largest_gain
from tools.theory.expansion import SecondOrderExpansion, corner_free_bound, expand
from torch import Tensor, nn

from soar import losses, randomness
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
from soar.progress import Mode, Progress
from soar.theory.proposition_1 import CORRECTION, expected_norm, norm_bound
from soar.threat import L2, Linf, Threat

EXACT = "exact"
STEPS = (0.01, 0.5)
"""the finite-difference steps h: the paper's, and one near the length of an attack"""

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


class Tightness(NamedTuple):
    """The quantities of the derivation at one image."""

    gains: dict[str, float]
    """rises of the loss, or bounds on them, by name"""
    norms: dict[str, Tensor]
    """||Hz|| for every z, by the way Hz was computed"""
    stable_rank: float
    """||H||_F^2 / ||H||_2^2: how many directions share the curvature"""


def measure(
    model: nn.Module,
    threat: Linf,
    x: Tensor,
    y: Tensor,
    *,
    index: Tensor,
    samples: int,
    start: str = "zero",
    seed: int = 0,
    mode: Mode = "quiet",
) -> list[Tightness]:
    """Measure every quantity at every image.

    Args:
        model: the network
        threat: what the adversary may do
        x: images in [0, 1]
        y: labels
        index: identity of each image
        samples: number of directions z
        start: where to expand, as in SOAR: zero for the image itself; pgd-1 for one step of PGD with half of
            eps, which leaves the other half for the ball
        seed: seed of starts and directions
        mode: how to show progress
    """
    x, _ = _start(start).find(model, threat, x, y, index=index, seed=seed, step=0)
    threat = remaining_ball(threat, start)
    found = []
    with probing(model), Progress(len(x), "measuring", mode) as progress:
        reached = _largest_losses(model, threat, x, y, index, seed)
        for row in range(len(x)):
            point, identity, loss = x[row : row + 1], index[row : row + 1], loss_in_double(model, y[row])
            expansion = expand(loss, point)
            z = draw_direction(_keys(identity, "z", samples, seed), tuple(x.shape[1:]), x.dtype)
            corners = randomness.normal(
                _keys(identity, "corners", _RANDOM_CORNERS, seed), (point.numel(),), torch.float64
            )
            gains = {name: float(values[row]) for name, values in reached.items()}
            singular = expansion.singular_values
            found.append(
                Tightness(
                    gains={**gains, **bounds_of(expansion, threat, corners)},
                    norms=sampled_norms(loss, point, expansion, z),
                    stable_rank=float((singular / singular.max()).square().sum()),
                )
            )
            progress.advance(1)
    return found


def remaining_ball(threat: Linf, start: str) -> Linf:
    """Return the part of a threat that a start leaves for the ball around the point of expansion."""
    return threat.scaled(_start(start).remaining)


def loss_in_double(model: nn.Module, labels: Tensor) -> LossAt:
    """Return the cross-entropy as a function of images, with the softmax in double precision.

    In single precision 1 - p of a confident network is lost, and with it every derivative. The network itself
    is differentiated well enough in its own precision.

    Args:
        model: the network
        labels: one per image, or one for all
    """
    return lambda points: losses.cross_entropy(model(points).double(), labels.expand(len(points)))


def bounds_of(expansion: SecondOrderExpansion, threat: Linf, corners: Tensor) -> dict[str, float]:
    """Compute the maxima and bounds of steps 1 to 5 for one expansion.

    Args:
        expansion: gradient and Hessian
        threat: the linf ball
        corners: random numbers, one start of the search in the linf ball per row
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


def sampled_norms(
    loss: LossAt, x: Tensor, expansion: SecondOrderExpansion, z: Direction
) -> dict[str, Tensor]:
    """Compute ||Hz|| for every z, with the exact Hessian and with finite differences.

    Args:
        loss: maps images to one loss per example
        x: one image, with a leading dimension of 1
        expansion: gradient and Hessian there
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


def difference_name(step: float) -> str:
    """Return the name of Hz by finite differences with a step.

    >>> difference_name(0.01)
    'h 0.01'
    """
    return f"h {step:g}"


def _largest_losses(
    model: nn.Module, threat: Linf, x: Tensor, y: Tensor, index: Tensor, seed: int
) -> dict[str, Tensor]:
    """Search each of the balls for the largest rise of the loss; a point of one lies in the next, too."""
    around = L2(threat.enclosing_l2_radius(x[0].numel()))
    balls: dict[str, tuple[Threat, bool]] = {
        SHOWN: (threat, True),
        LOSS: (threat, False),
        LOSS_L2: (around, False),
    }
    batches = list(zip(x.split(_BATCH), y.split(_BATCH), index.split(_BATCH), strict=True))
    reached: dict[str, Tensor] = {}
    best = torch.zeros(len(x), dtype=torch.float64)
    for name, (ball, in_pixel_range) in balls.items():
        gains = [
            largest_gain(
                loss_in_double(model, labels),
                images,
                ball,
                in_pixel_range=in_pixel_range,
                index=identity,
                seed=seed,
            )
            for images, labels, identity in batches
        ]
        best = torch.maximum(best, torch.cat(gains))
        reached[name] = best
    return reached


def _start(name: str) -> Start:
    return Start(name, share=0.5)


def _keys(identity: Tensor, purpose: str, count: int, seed: int) -> Tensor:
    """Return as many keys of one image as it needs."""
    return randomness.key(seed, identity.expand(count), f"theory {purpose}", torch.arange(count))
