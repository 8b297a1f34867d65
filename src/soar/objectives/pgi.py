"""FGSM-PGI (Jia et al., 2022): one-step training that starts at each example's own earlier perturbation."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from soar import randomness
from soar.attacks.oracle import precise
from soar.attacks.pgd import climb
from soar.attacks.recall import recalled
from soar.objectives import checks
from soar.objectives.alignment import watched
from soar.objectives.inner_passes import regularized, statistics
from soar.objectives.memory import Memory
from soar.objectives.objective import OBJECTIVES, Objective, Output
from soar.objectives.one_step import gradient_at, random_corner
from soar.prediction import logits_of
from soar.shapes import per_example
from soar.threat import Threat

# Just below what float16 holds.
_LARGEST = 6e4


class Continued(NamedTuple):
    """One step from where an example was left."""

    start: Tensor
    points: Tensor
    gradient: Tensor


@OBJECTIVES.register("pgi")
class PGI(Objective):
    r"""Cross-entropy one step from each example's earlier perturbation, and near its logits there (FGSM-PGI).

    mean_i [ -log p(y_i | x_i') + w / K || f(x_i') - f(x_i^0) ||^2 ],  x' = P(x^0 + eps sign g(x^0))

    with K classes and P the projection to ball and pixel range; else the step is that of the norm. The
    start x^0 of the next visit is P(x^0 + eps sign m), m the momentum c m + g / ||g||_1 of the example's
    gradients. At the first visit, and again after a number of visits, x^0 moves every pixel of the image by
    eps, up or down, and m is 0. Gradients of the loss flow through both passes.

    Starts and momenta are kept by example index, saved in checkpoints and shared between processes: as
    float16, 4 bytes for every pixel of the training set (614 MB for CIFAR-10), and half of it without
    momentum. They belong to the image as it was cropped and flipped at the last visit, as in the authors'
    own training. An eps that grows scales them.

    Three forward and three backward passes. The step uses the model in eval mode and computes no parameter
    gradients; BatchNorm updates its running statistics in the pass at the attacked points only. The metric
    `alignment` is the mean cosine between the gradient of the cross-entropy at the start and that of the
    training loss at x'.

    Args:
        model: any module that maps images in [0, 1] to logits
        threat: what the adversary may do
        weight: w, the weight of the squared change of the logits
        momentum: c; with 0 the next start is x' itself
        reset_after: the number of visits after which an example begins anew
        seed: seed of the first starts
    """

    needs_index: ClassVar[bool] = True

    def __init__(
        self,
        model: nn.Module,
        threat: Threat,
        *,
        weight: float = 10.0,
        momentum: float = 0.3,
        reset_after: int = 40,
        seed: int = 0,
    ) -> None:
        super().__init__(model, threat, seed=seed)
        self.required_threat()
        checks.not_negative(weight=weight)
        checks.fraction(momentum=momentum)
        checks.count(reset_after=reset_after)
        self.weight, self.momentum, self.reset_after = weight, momentum, reset_after
        self.starts, self.momenta = Memory(torch.float16), Memory(torch.float16)
        self.visits = Memory(torch.int64)

    def compute(self, x: Tensor, y: Tensor, index: Tensor, step: int) -> Output:
        """Continue each example's perturbation by a step, and compare the logits before and after it."""
        found = recalled(lambda: self._search(x, y, index, step))
        points, alignment = watched(found.points, found.gradient)
        logits = precise(logits_of(self.model, points))
        with statistics(self.model, "batch"):
            before = precise(logits_of(self.model, found.start))
        change = (logits - before).square().mean(dim=1)
        output = regularized(self.classification_loss(logits, y), self.weight * change, logits)
        output.metrics["alignment"] = alignment
        return output

    def _search(self, x: Tensor, y: Tensor, index: Tensor, step: int) -> Continued:
        threat, shape = self.required_threat(), tuple(x.shape[1:])
        # What is kept is on the CPU: one wait for a GPU here, before it has work, and one to store it.
        eps, numbers = threat.radius, index.cpu()
        visits = self.visits.of(numbers)
        is_new = per_example((visits % self.reset_after == 0).to(x.device), x)
        corner = random_corner(x, threat, randomness.key(self.seed, index, "pgi start", step), eps)
        left = threat.project(x + eps * self.starts.of(numbers, shape).to(x.device).to(x.dtype), x)
        start = torch.where(is_new, corner, left).detach()
        gradient = gradient_at(self.model, start, y)
        kept: list[Tensor] = []
        points = onward = climb(start, gradient, x, threat, eps)
        if self.momentum:
            earlier = self.momenta.of(numbers, shape).to(x.device).to(x.dtype).masked_fill(is_new, 0)
            momentum = self.momentum * earlier + of_unit_mean(gradient)
            onward = climb(start, momentum, x, threat, eps)
            kept.append(momentum.clamp(-_LARGEST, _LARGEST))
        kept.append((onward - x) / eps)
        memories = (self.momenta, self.starts) if self.momentum else (self.starts,)
        for memory, values in zip(memories, torch.stack(kept).half().cpu(), strict=True):
            memory.store(numbers, values)
        self.visits.store(numbers, visits + 1)
        return Continued(start, points.detach(), gradient)


def of_unit_mean(gradient: Tensor) -> Tensor:
    """Return gradients whose entries have a mean size of 1, so that those of all visits count alike.

    >>> of_unit_mean(torch.tensor([[1e-9, -3e-9], [0.0, 0.0]]))
    tensor([[ 0.5000, -1.5000],
            [ 0.0000,  0.0000]])
    """
    size = gradient.flatten(1).abs().mean(dim=1).clamp(min=torch.finfo(gradient.dtype).tiny)
    return gradient / per_example(size, gradient)
