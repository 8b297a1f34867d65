r"""SOAR: second-order adversarial regularization, the method of the paper.

The loss around x' is expanded to second order, and the penalty bounds how much an adversary can increase that
expansion within the penalty's part of eps:

    mean_i [ l(x_i') + w \frac{\rho^2 + 1}{2} E_z ||H_i z|| ],   H = [[H_s, g], [g^T, 1]] of s l,  z ~ N(0, I)

with \( \rho = \sqrt d \, \epsilon_R \) for linf and \( \epsilon_R \) for l2 (eq. 11 and 13). The mean of the
penalty may be taken over a part of the batch: most of the cost of a step is the penalty's.
"""

from __future__ import annotations

import math
import warnings
from functools import partial
from typing import ClassVar, Literal, NamedTuple

import torch
from torch import Tensor, nn

from soar import curvature, randomness
from soar.double_backward import FastDoubleBackward
from soar.double_backward.graph import obstacle, place_of, undifferentiable
from soar.errors import UserError, first_line
from soar.objectives import checks
from soar.objectives.alignment import cosine
from soar.objectives.inner_passes import (
    LossAt,
    Statistics,
    full_precision,
    has_batch_norm,
    statistics,
)
from soar.objectives.objective import OBJECTIVES, Objective, Output
from soar.objectives.penalty_clip import PenaltyClip
from soar.objectives.starts import Start
from soar.prediction import logits_of
from soar.threat import Threat
from soar.values import truth

HVP = Literal["finite-difference", "exact", "gauss-newton"]


class Expansion(NamedTuple):
    """The loss around x' to second order, along some random directions."""

    logits: Tensor
    """of the whole batch; gradient and norms are those of the examples with a penalty"""
    gradient: Tensor
    norms: Tensor
    """||Hz||, shape (examples, samples)"""
    floors: Tensor
    """|z_1|, what the norms are without any gradient or curvature, of the same shape"""


@OBJECTIVES.register("soar")
class SOAR(Objective):
    """Cross-entropy plus the norm of its curvature along random directions; not with the paper's settings.

    The paper's version is `SOARPaper` (`soar-paper` in a recipe). This one differs from it in six ways:

    - the PGD-1 start uses all of eps, and the penalty covers half of eps on top of it; in the paper each
      gets half of eps, so that training never sees a point at distance eps;
    - Hessian-vector products are Gauss-Newton's, which are exact between the kinks of a ReLU network and
      faster; the paper takes a finite difference of gradients over a step of 0.01;
    - the loss inside the norm is scaled by 1/64, so that the penalty is quadratic where it is small; the
      paper does not scale it;
    - norms are not clamped; the paper's clamp at 10 leaves examples beyond it without a gradient;
    - the penalty is counted from |z_1|, the norm without any gradient or curvature. It has no gradient,
      so training is the same, but it grows with the number of pixels and would hide the rest of the loss;
    - BatchNorm, if there is any, normalizes by running statistics where curvature is measured, so that it is
      each example's own; the statistics of the batch, as in the paper, couple the examples.

    The metrics explain a run that goes wrong. `clamped` near 1: the penalty has no gradient and this is plain
    adversarial training at x'. `confidence` near 1 with a penalty near 0: the softmax has saturated,
    which hides curvature instead of removing it. `penalty_gradient` far above its clip: the penalty decides
    the direction of every step. `alignment`, where a single step leads to x': the mean cosine between the
    gradients where that step begins and ends; it falls when training collapses.

    Args:
        model: any module that maps images in [0, 1] to logits
        threat: what the adversary may do
        init: the point x' where the loss is expanded: zero, random, pgd-K or nfgsm
        init_eps_fraction: the radius of the start's ball as a fraction of eps
        penalty_eps_fraction: eps_R, the radius that the penalty covers, as a fraction of eps; by default what
            the start leaves
        hvp: how Hessian-vector products are computed. "gauss-newton" leaves out the curvature of the
            logits, is exact between the kinks of a ReLU network and the fastest; "finite-difference" of
            gradients includes the kinks within its step; "exact" differentiates once more
        fd_step: h, the l2 length of the finite-difference step, the scale at which curvature is measured
        num_directions: how many directions z are drawn per example
        loss_scale: s, the factor on the loss inside the norm; quadratic below 1/s, linear above
        max_norm: the largest ||Hz|| that counts for an example; beyond it the penalty has no gradient
        penalty_grad_clip: the largest l2 norm of the penalty's gradient, clipped apart from that of the loss
        penalty_weight: w, a factor on the penalty; sqrt(pi/2) gives the corrected bound of Proposition 1
        penalty_fraction: the share of a batch, rounded up, that the mean of the penalty is taken over: its
            first examples. In a shuffled batch the expected gradient stays the same, only its variance grows
        penalty_floor: whether the loss includes the part of the penalty that no weights change, which is 0.8
            times its factor on average
        penalty_warmup_steps: the penalty's weight grows linearly over this many updates
        batchnorm_stats: what BatchNorm normalizes by in the passes of the penalty: running, or batch. With
            running statistics, and with a `penalty_fraction` below 1, the classification loss has a pass of
            its own, which normalizes the whole batch as one; the penalty's passes see only their part of it,
            which "batch" normalizes by its own statistics
        seed: seed of starts and directions
    """

    allows_bfloat16: ClassVar[bool] = False
    differentiates_twice: ClassVar[bool] = True

    def __init__(
        self,
        model: nn.Module,
        threat: Threat,
        *,
        init: str = "pgd-1",
        init_eps_fraction: float = 1.0,
        penalty_eps_fraction: float | None = 0.5,
        hvp: HVP = "gauss-newton",
        fd_step: float = 0.5,
        num_directions: int = 1,
        loss_scale: float = 1 / 64,
        max_norm: float | None = None,
        penalty_grad_clip: float | None = None,
        penalty_weight: float = 1.0,
        penalty_fraction: float = 1.0,
        penalty_floor: bool = False,
        penalty_warmup_steps: int = 0,
        batchnorm_stats: Statistics = "running",
        seed: int = 0,
    ) -> None:
        super().__init__(model, threat, seed=seed)
        self.required_threat()
        checks.positive(
            fd_step=fd_step, loss_scale=loss_scale, max_norm=max_norm, penalty_grad_clip=penalty_grad_clip
        )
        checks.not_negative(penalty_weight=penalty_weight)
        checks.fraction(zero=False, penalty_fraction=penalty_fraction)
        checks.count(num_directions=num_directions)
        checks.count(least=0, penalty_warmup_steps=penalty_warmup_steps)
        truth(penalty_floor, "objective.penalty_floor")
        checks.choice("hvp", hvp, HVP)
        checks.choice("batchnorm_stats", batchnorm_stats, Statistics)
        self.init = Start(init, init_eps_fraction, penalty_eps_fraction)
        self.hvp, self.fd_step, self.num_directions = hvp, fd_step, num_directions
        self.loss_scale, self.max_norm = loss_scale, max_norm
        self.penalty_weight, self.penalty_warmup_steps = penalty_weight, penalty_warmup_steps
        self.penalty_fraction = penalty_fraction
        self.penalty_floor = penalty_floor
        self.penalty_grad_clip = None if penalty_grad_clip is None else PenaltyClip(penalty_grad_clip)
        self.batchnorm_stats: Statistics = batchnorm_stats
        self._is_backward = False

    def compute(self, x: Tensor, y: Tensor, index: Tensor, step: int) -> Output:
        """Find x', expand the loss there, and add the penalty."""
        threat = self.required_threat()
        points, start_gradient = self.init.find(
            self.model, threat, x, y, index=index, seed=self.seed, step=step
        )
        keys = [
            randomness.key(self.seed, index, f"soar direction {k}", step) for k in range(self.num_directions)
        ]
        found = self._expand(points.detach(), y, keys)
        norms = found.norms if self.max_norm is None else found.norms.clamp(max=self.max_norm)
        if not self.penalty_floor:
            norms = norms - found.floors
        penalty = (self.factor(x, step) * norms.mean(dim=1)).mean()
        loss = self.classification_loss(found.logits, y).mean()
        metrics = self._metrics(found, loss, penalty)
        if start_gradient is not None:
            metrics["alignment"] = cosine(
                start_gradient[: len(found.gradient)], found.gradient.detach()
            ).mean()
        if self.penalty_grad_clip is not None:
            penalty, metrics["penalty_gradient"] = self.penalty_grad_clip.apply(
                penalty, self.model, step=step, micro_batches=self.micro_batches
            )
        return Output(loss + penalty, found.logits.detach(), metrics)

    def factor(self, x: Tensor, step: int) -> float:
        """Return the factor of ||Hz||: weight, warm-up and radius together.

        Args:
            x: images, for their number of pixels
            step: the training step
        """
        radius = self.required_threat().enclosing_l2_radius(math.prod(x.shape[1:])) * self.init.remaining
        factor = self.penalty_weight * (radius**2 + 1) / 2
        return (
            factor * min(1.0, (step + 1) / self.penalty_warmup_steps) if self.penalty_warmup_steps else factor
        )

    def _expand(self, points: Tensor, y: Tensor, keys: list[Tensor]) -> Expansion:
        """Return the logits at x' and the expansion of the part of the batch that has a penalty.

        BatchNorm updates its running statistics in one pass only, over the whole batch. Passes of the loss
        alone have the caller's precision, those of the curvature are in float32.
        """
        size = part_size(self.penalty_fraction, len(points))
        part, labels, keys = points[:size], y[:size], [key[:size] for key in keys]
        is_whole = size == len(points)
        if has_batch_norm(self.model) and (self.batchnorm_stats == "running" or not is_whole):
            logits = logits_of(self.model, points)
            with statistics(self.model, self.batchnorm_stats):
                return self._expand_part(part, labels, keys)._replace(logits=logits)
        found = self._expand_part(part, labels, keys)
        if is_whole:
            return found
        return found._replace(logits=torch.cat([found.logits, logits_of(self.model, points[size:])]))

    def _expand_part(self, points: Tensor, y: Tensor, keys: list[Tensor]) -> Expansion:
        expand = self._expand_in_one_go if self.hvp == "gauss-newton" else self._expand_by_gradients
        with full_precision(points.device), FastDoubleBackward():
            return expand(points, y, keys)

    def _expand_by_gradients(self, points: Tensor, y: Tensor, keys: list[Tensor]) -> Expansion:
        """Expand with products of the Hessian, from gradients near x' or from second derivatives."""
        loss_at = LossAt(self.model, y)
        _, gradient = curvature.input_gradient(loss_at, points, differentiable=True)
        norms, floors = [], []
        with statistics(self.model, self.batchnorm_stats):
            for key in keys:
                z = curvature.draw_direction(key, tuple(points.shape[1:]), points.dtype)
                floors.append(z.last.abs())
                along = self._hessian_product(loss_at, points, gradient, z.pixels)
                augmented = curvature.augmented_product(along, gradient, z, scale=self.loss_scale)
                norms.append(curvature.augmented_norm(augmented))
        return Expansion(loss_at.logits[0], gradient, torch.stack(norms, dim=1), torch.stack(floors, dim=1))

    def _hessian_product(
        self, loss_at: curvature.LossAt, points: Tensor, gradient: Tensor, direction: Tensor
    ) -> Tensor:
        if self.hvp == "finite-difference":
            return curvature.difference_product(
                loss_at, points, gradient, direction, self.fd_step, differentiable=True
            )
        return curvature.exact_product(loss_at, points, direction, differentiable=True)

    def _expand_in_one_go(self, points: Tensor, y: Tensor, keys: list[Tensor]) -> Expansion:
        """Expand with Gauss-Newton's matrix: the first direction shares its pass with the loss."""
        directions = [curvature.draw_direction(key, tuple(points.shape[1:]), points.dtype) for key in keys]
        first, *others = directions
        logits, gradient, augmented = self._gauss_newton(points, y, first)
        norms = [curvature.augmented_norm(augmented)]
        with statistics(self.model, self.batchnorm_stats):
            for z in others:
                norms.append(curvature.augmented_norm(self._gauss_newton(points, y, z)[2]))
        floors = torch.stack([z.last.abs() for z in directions], dim=1)
        return Expansion(logits, gradient, torch.stack(norms, dim=1), floors)

    def _gauss_newton(
        self, points: Tensor, y: Tensor, direction: curvature.Direction
    ) -> tuple[Tensor, Tensor, curvature.Direction]:
        """Return logits, gradient and H z, from forward derivatives until they turn out not to work."""
        reason = None
        if not self._is_backward:
            try:
                found = self._gauss_newton_by(curvature.logits_along, points, y, direction)
                # What overwrites its numbers would fail only later, in the backward pass of the caller.
                reason = None if self._is_checked else obstacle(curvature.augmented_norm(found[2]).sum())
                if reason is None:
                    return found
            except (RuntimeError, UserError) as error:
                cause = error.__cause__ if isinstance(error, UserError) else error
                if not isinstance(cause, RuntimeError) or isinstance(cause, torch.OutOfMemoryError):
                    raise
                reason = first_line(cause).rstrip(".") + place_of(cause, self.model)
        found = self._gauss_newton_by(curvature.logits_along_backward, points, y, direction)
        if reason is not None:
            without = obstacle(curvature.augmented_norm(found[2]).sum() + found[0].sum())
            if without is not None:
                raise undifferentiable(without)
            self._is_backward = True
            warnings.warn(
                f"model: has no forward derivatives that SOAR can train ({reason}); it takes two backward"
                " passes in their place, for the same loss at a slightly higher cost",
                stacklevel=2,
            )
        return found

    def _gauss_newton_by(
        self, along: curvature.LogitsAlong, points: Tensor, y: Tensor, direction: curvature.Direction
    ) -> tuple[Tensor, Tensor, curvature.Direction]:
        logits_at = partial(logits_of, self.model)
        return curvature.gauss_newton_augmented(
            logits_at, points, y, direction, scale=self.loss_scale, along=along
        )

    def _metrics(self, found: Expansion, loss: Tensor, penalty: Tensor) -> dict[str, Tensor]:
        norms = found.norms.detach()
        beyond = norms > (math.inf if self.max_norm is None else self.max_norm)
        return {
            "cross_entropy": loss.detach(),
            "penalty": penalty.detach(),
            "curvature": norms.mean(),
            "clamped": beyond.to(norms.dtype).mean(),
            "gradient_norm": torch.linalg.vector_norm(found.gradient.detach().flatten(1), dim=1).mean(),
            "confidence": found.logits.detach().softmax(dim=1).amax(dim=1).mean(),
        }


def part_size(fraction: float, count: int) -> int:
    """Return how many of the examples make up a fraction of them, rounded up.

    >>> part_size(0.25, 128), part_size(0.25, 2), part_size(0.07, 100), part_size(1.0, 3)
    (32, 1, 7, 3)
    """
    # 0.07 * 100 is a little above 7.
    return max(1, math.ceil(round(fraction * count, 6)))


@OBJECTIVES.register("soar-paper")
def SOARPaper(model: nn.Module, threat: Threat, *, seed: int = 0) -> SOAR:  # noqa: N802 - used like a class
    """SOAR to the letter of the paper: PGD-1 start with half of eps, h = 0.01, norms clamped to 10.

    The paper does not define its "clipping of 10"; a clamp of every ||Hz|| fits its table of losses.

    Args:
        model: any module that maps images in [0, 1] to logits
        threat: what the adversary may do
        seed: seed of starts and directions
    """
    return SOAR(
        model,
        threat,
        init="pgd-1",
        init_eps_fraction=0.5,
        penalty_eps_fraction=None,
        hvp="finite-difference",
        fd_step=0.01,
        loss_scale=1.0,
        max_norm=10.0,
        penalty_floor=True,
        batchnorm_stats="batch",
        seed=seed,
    )
