"""MMA (Ding et al., 2020): push every example's own decision boundary away, as far as a limit."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from soar import epsilon, randomness
from soar.attacks.recall import recalled
from soar.errors import UserError
from soar.losses import soft_margin
from soar.model_state import probing
from soar.objectives import checks
from soar.objectives.ascent import ascend
from soar.objectives.inner_passes import statistics
from soar.objectives.memory import Memory
from soar.objectives.objective import OBJECTIVES, Objective, Output
from soar.prediction import logits_of
from soar.shapes import per_example
from soar.threat import Linf, Threat

# The search goes a little beyond the limit, so that margins above the limit can be told from those at it.
_BEYOND = 1.05
_CROSSING = 2.5


class Boundary(NamedTuple):
    """The points where the examples of a batch are trained."""

    points: Tensor
    """on the boundary for correctly classified examples, the image itself for the others"""
    margins: Tensor
    """the distance to the boundary; 0 for misclassified examples"""
    counts: Tensor
    """1 for examples that are misclassified or have a margin below the limit, 0 for the others"""


@OBJECTIVES.register("mma")
class MMA(Objective):
    r"""Cross-entropy at each example's own boundary point, until its margin is large enough (max margin).

    c mean_i l(x_i) + (1 - c) 1/B [ sum_{correct, t_i < D} l(x_i + t_i u_i) + sum_{wrong} l(x_i) ]

    An example counts as correctly classified when its soft margin logsumexp_{j != y} f_j - f_y is below 0.
    PGD on that margin, in a ball as large as the example's margin was in the epoch before, finds the
    direction u; bisection along it finds the margin t, the smallest step tried that is misclassified.
    Margins are kept by example index, saved in checkpoints and shared between processes.

    k + m + 2 forward and k + 2 backward passes with k steps and m bisections; the search is limited to
    correctly classified examples. It runs in eval mode, without gradients where it needs none, and its
    points stay in [0, 1]. BatchNorm updates its running statistics in the pass at the images only.

    Args:
        model: any module that maps images in [0, 1] to logits
        threat: what the adversary may do
        max_margin: D, the margin from which on an example no longer counts; by default four times eps
        min_margin: the smallest ball that is searched; by default a sixth of eps
        steps: how many steps PGD takes
        bisection_steps: how many points are tried between image and limit
        clean_loss_fraction: c, the weight of the loss at the images; that at the boundary has 1 - c
        seed: seed of the random starts
    """

    needs_index: ClassVar[bool] = True

    def __init__(
        self,
        model: nn.Module,
        threat: Threat,
        *,
        max_margin: str | float | Fraction | None = None,
        min_margin: str | float | Fraction | None = None,
        steps: int = 10,
        bisection_steps: int = 10,
        clean_loss_fraction: float = 1 / 3,
        seed: int = 0,
    ) -> None:
        super().__init__(model, threat, seed=seed)
        checks.count(steps=steps, bisection_steps=bisection_steps)
        checks.fraction(clean_loss_fraction=clean_loss_fraction)
        self.max_margin = None if max_margin is None else epsilon.parse(max_margin, "objective.max_margin")
        self.min_margin = None if min_margin is None else epsilon.parse(min_margin, "objective.min_margin")
        self.steps, self.bisection_steps, self.clean_loss_fraction = (
            steps,
            bisection_steps,
            clean_loss_fraction,
        )
        self.margins = Memory()
        limits = self.required_threat()
        smallest, largest = self.limits(limits)
        if isinstance(limits, Linf) and largest > 1:
            raise UserError(
                f"objective.max_margin: got {largest:g} for linf, expected at most 1, because pixels are in"
                " [0, 1]; 32 of 255 gray levels are written 32/255 (flag --objective.max_margin)"
            )
        if smallest >= largest:
            raise UserError(
                f"objective.min_margin: got {smallest:g}, expected below objective.max_margin,"
                f" which is {largest:g} (flag --objective.min_margin)"
            )

    def compute(self, x: Tensor, y: Tensor, index: Tensor, step: int) -> Output:
        """Find the boundary of every correctly classified example, and train there."""
        natural = logits_of(self.model, x)
        correct = soft_margin(natural.detach(), y) < 0
        found = recalled(lambda: self._search(x, y, correct, index, step))
        with statistics(self.model, "batch"):
            attacked = logits_of(self.model, found.points)
        at_boundary = found.counts * self.classification_loss(attacked, y)
        at_image = self.classification_loss(natural, y)
        loss = self.clean_loss_fraction * at_image + (1 - self.clean_loss_fraction) * at_boundary
        return Output(
            loss.mean(),
            attacked.detach(),
            {
                "cross_entropy": at_image.detach().mean(),
                "margin": found.margins.mean(),
                "correct": correct.to(x.dtype).mean(),
                "counted": found.counts.mean(),
            },
        )

    def limits(self, threat: Threat) -> tuple[float, float]:
        """Return the radius of the smallest ball that is searched, and D.

        Args:
            threat: whose eps sets the defaults
        """
        smallest = threat.eps / 6 if self.min_margin is None else self.min_margin
        # Beyond 1 there are no pixels.
        most = min(4 * threat.eps, Fraction(1)) if isinstance(threat, Linf) else 4 * threat.eps
        largest = most if self.max_margin is None else self.max_margin
        return float(smallest), float(largest)

    def _search(self, x: Tensor, y: Tensor, correct: Tensor, index: Tensor, step: int) -> Boundary:
        threat = self.required_threat()
        smallest, largest = self.limits(threat)
        points, margins = x.detach().clone(), x.new_zeros(len(x))
        # The margins are kept on the CPU: one wait for a GPU here, and one to store them.
        is_correct, numbers = torch.stack([correct.to(index.dtype), index]).cpu()
        if bool(is_correct.any()):
            rows = is_correct.nonzero()[:, 0]
            radius = (
                self.margins.of(numbers[rows]).to(x.device).to(x.dtype).clamp(smallest, _BEYOND * largest)
            )
            rows = rows.to(x.device)
            images, classes = x[rows].detach(), y[rows]
            keys = randomness.key(self.seed, index[rows], "mma start", step)

            def height(candidates: Tensor) -> Tensor:
                return soft_margin(logits_of(self.model, candidates), classes)

            with probing(self.model):
                ends = ascend(
                    height,
                    threat,
                    images,
                    threat.random_start(images, keys, radius),
                    steps=self.steps,
                    step_size=_CROSSING * radius / self.steps,
                    radius=radius,
                )
                direction = (ends - images) / per_example(radius, images)
                with torch.no_grad():
                    at = _line(images, direction)
                    found = bisect(
                        lambda t: height(at(t)) >= 0, radius, _BEYOND * largest, rounds=self.bisection_steps
                    )
            points[rows], margins[rows] = at(found), found
        self.margins.store(numbers, margins)
        return Boundary(points, margins, (~correct | (margins < largest)).to(x.dtype))


def bisect(is_wrong: Callable[[Tensor], Tensor], first: Tensor, largest: float, *, rounds: int) -> Tensor:
    """Return the smallest length tried at which an example is misclassified; `largest` if it never is.

    Args:
        is_wrong: maps one length per example to whether it is misclassified there
        first: the lengths to try first
        largest: the upper end of the search
        rounds: how many lengths to try

    >>> bisect(lambda t: t >= 0.3, torch.tensor([0.5]), 1.0, rounds=12)
    tensor([0.3000])
    """
    low, high = torch.zeros_like(first), torch.full_like(first, largest)
    tried = first
    for _ in range(rounds):
        wrong = is_wrong(tried)
        high = torch.where(wrong, tried, high)
        low = torch.where(wrong, low, tried)
        tried = (low + high) / 2
    return high


def _line(images: Tensor, direction: Tensor) -> Callable[[Tensor], Tensor]:
    """Return the function from lengths to points along a direction, clipped to the pixel range."""
    return lambda t: (images + per_example(t, images) * direction).clamp(0, 1)
