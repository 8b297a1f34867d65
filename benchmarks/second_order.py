"""Choices of SOAR that were tried and did not become options, as objectives that recipes can name.

    soar study benchmarks/second_order.toml --split validation --examples 500 --threads 1

trains each for five CPU minutes beside the SOAR that ships.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from soar import randomness
from soar.attacks.oracle import precise
from soar.attacks.pgd import climb
from soar.attacks.recall import recalled
from soar.objectives import SOAR, Objective, Output
from soar.objectives.alignment import watched
from soar.objectives.inner_passes import full_precision, regularized, statistics
from soar.objectives.memory import Memory
from soar.objectives.one_step import Step, gradient_at, noisy_step, random_corner
from soar.objectives.qub import quadratic_bound
from soar.objectives.soar import part_size
from soar.objectives.starts import Start
from soar.prediction import logits_of
from soar.shapes import per_example
from soar.threat import Threat


class Remembered(SOAR):
    r"""SOAR that expands the loss one step from each example's own earlier perturbation.

    x' = P(x^0 + eps sign g(x^0)),  x^0 the x' of the last visit; a random corner of the ball at the first

    Args:
        model: any module that maps images in [0, 1] to logits
        threat: what the adversary may do, linf or l2
        penalty_fraction: the share of a batch that the penalty is computed for
        seed: seed of first starts and directions
    """

    needs_index: ClassVar[bool] = True

    def __init__(
        self, model: nn.Module, threat: Threat, *, penalty_fraction: float = 0.125, seed: int = 0
    ) -> None:
        super().__init__(
            model, threat, penalty_fraction=penalty_fraction, batchnorm_stats="running", seed=seed
        )
        self.init = self.remembered = RememberedStart("pgd-1", 1.0, self.init.rest)
        self.moves = self.remembered.moves


class RememberedStart(Start):
    """A start that keeps where each example was left, as a multiple of eps."""

    moves: Memory

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        object.__setattr__(self, "moves", Memory(torch.float16))

    def find(
        self, model: nn.Module, threat: Threat, x: Tensor, y: Tensor, *, index: Tensor, seed: int, step: int
    ) -> tuple[Tensor, Tensor | None]:
        """Return x' and the gradient that the step to it followed; the arguments are those of `Start`."""

        def continued() -> Step:
            moves = self.moves.of(index, tuple(x.shape[1:])).to(x.dtype)
            corner = random_corner(x, threat, randomness.key(seed, index, "remembered", step), threat.radius)
            is_new = per_example(moves.flatten(1).abs().sum(dim=1) == 0, x)
            start = torch.where(is_new, corner, threat.project(x + threat.radius * moves, x)).detach()
            gradient = gradient_at(model, start, y)
            points = climb(start, gradient, x, threat, threat.radius).detach()
            self.moves.store(index, (points - x) / threat.radius)
            return Step(points, gradient)

        return recalled(continued)


class BoundAndPenalty(SOAR):
    r"""QUB's bound in the logits plus SOAR's penalty in the pixels, both at the point of N-FGSM.

    mean_i [ b(z_i, z_i') ] + w \frac{\rho^2 + 1}{2} mean_part ||H_i z||

    Args:
        model: any module that maps images in [0, 1] to logits
        threat: what the adversary may do, linf or l2
        penalty_fraction: the share of a batch that the penalty is computed for
        penalty_weight: w
        seed: seed of noise and directions
    """

    def __init__(
        self,
        model: nn.Module,
        threat: Threat,
        *,
        penalty_fraction: float = 0.125,
        penalty_weight: float = 1.0,
        seed: int = 0,
    ) -> None:
        super().__init__(
            model,
            threat,
            init="nfgsm",
            penalty_fraction=penalty_fraction,
            penalty_weight=penalty_weight,
            seed=seed,
        )

    def compute(self, x: Tensor, y: Tensor, index: Tensor, step: int) -> Output:
        """Bound the loss at x', and add the penalty of a part of the batch."""
        threat = self.required_threat()
        points, _ = self.init.find(self.model, threat, x, y, index=index, seed=self.seed, step=step)
        natural = precise(logits_of(self.model, x))
        with statistics(self.model, "batch"):
            attacked = precise(logits_of(self.model, points))
        target = (1 - self.label_smoothing) * F.one_hot(y, natural.shape[1]).to(natural.dtype)
        bound = quadratic_bound(natural, attacked, target + self.label_smoothing / natural.shape[1])
        size = part_size(self.penalty_fraction, len(x))
        keys = [randomness.key(self.seed, index[:size], "soar direction 0", step)]
        with statistics(self.model, self.batchnorm_stats):
            found = self._expand_part(points[:size].detach(), y[:size], keys)
        penalty = (self.factor(x, step) * (found.norms - found.floors)).mean()
        metrics = {"bound": bound.detach().mean(), "penalty": penalty.detach()}
        return Output(bound.mean() + penalty, attacked.detach(), metrics)


class SecondDifferences(Objective):
    r"""N-FGSM plus the curvature of the loss along its own step, from three losses and no second derivative.

    mean_i [ l(x_i') + w ( l(x_i') - 2 l(m_i) + l(x_i^0) )^2 ],  m half-way between start x^0 and end x'

    The square on a part of the batch only.

    Args:
        model: any module that maps images in [0, 1] to logits
        threat: what the adversary may do, linf or l2
        weight: w
        penalty_fraction: the share of a batch, rounded up, that the mean of the squares is taken over
        seed: seed of the noise
    """

    allows_bfloat16: ClassVar[bool] = False

    def __init__(
        self,
        model: nn.Module,
        threat: Threat,
        *,
        weight: float = 10.0,
        penalty_fraction: float = 0.125,
        seed: int = 0,
    ) -> None:
        super().__init__(model, threat, seed=seed)
        self.required_threat()
        self.weight, self.penalty_fraction = weight, penalty_fraction

    def compute(self, x: Tensor, y: Tensor, index: Tensor, step: int) -> Output:
        """Train at the end of the step, and compare three losses along it."""
        threat = self.required_threat()
        found = recalled(lambda: noisy_step(self.model, threat, x, y, index=index, seed=self.seed, step=step))
        points, alignment = watched(*found)
        logits = logits_of(self.model, points)
        size = part_size(self.penalty_fraction, len(x))
        end, labels = found.points[:size], y[:size]
        # Clipping to the pixel range moves the start of some pixels by less than eps; the line stays one.
        start = (end - threat.radius * threat.ascent(found.gradient[:size])).clamp(0, 1)
        with full_precision(x.device), statistics(self.model, "running"):
            at = logits_of(self.model, torch.cat([start, (start + end) / 2, end]))
            first, middle, last = F.cross_entropy(at, labels.repeat(3), reduction="none").chunk(3)
        square = self.weight * (last - 2 * middle + first).square()
        loss = self.classification_loss(logits, y)
        output = regularized(loss, square.mean().expand(len(x)), logits)
        output.metrics["alignment"] = alignment
        return output
