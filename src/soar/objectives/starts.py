"""Where a regularizer expands the loss: at the image, at a random point, or where a short attack ends."""

from __future__ import annotations

import re
from dataclasses import dataclass

from torch import Tensor, nn

from soar import randomness
from soar.attacks.oracle import perturb, search
from soar.attacks.pgd import PGD
from soar.attacks.recall import recalled
from soar.errors import UserError, shown
from soar.objectives import checks
from soar.objectives.one_step import noisy_step
from soar.threat import Threat


@dataclass(frozen=True)
class Start:
    """How the expansion point x' is found, and which part of eps the regularizer covers.

    The start moves within `share` of eps; the regularizer covers `rest` of it. In the paper's Algorithm 1
    one step of PGD takes one half and the regularizer the other, so that together they fill the ball.

    Args:
        kind: zero, random, pgd-K for K steps of PGD from a random point, or nfgsm for the step of `NFGSM`
        share: the radius of the start's ball as a fraction of eps, above 0 and at most 1; zero uses none, and
            nfgsm begins at noise of twice the radius and is not projected, so that it may end thrice as far
        rest: the radius that the regularizer covers as a fraction of eps; by default what the start leaves

    Raises:
        UserError: for a value out of range

    >>> Start("pgd-1", share=0.5).remaining, Start("zero", share=0.5).remaining
    (0.5, 1.0)
    """

    kind: str
    share: float
    rest: float | None = None

    def __post_init__(self) -> None:
        kinds = r"zero|random|nfgsm|pgd-[1-9][0-9]{0,5}"
        if not isinstance(self.kind, str) or not re.fullmatch(kinds, self.kind):
            raise UserError(
                f"objective.init: got {shown(self.kind)}, expected zero, random, nfgsm or pgd-K such as pgd-1"
                " (flag --objective.init)"
            )
        checks.fraction(zero=False, init_eps_fraction=self.share)
        checks.not_negative(penalty_eps_fraction=self.rest)

    @property
    def remaining(self) -> float:
        """The fraction of eps that the regularizer covers."""
        if self.rest is not None:
            return self.rest
        return 1.0 if self.kind == "zero" else 1.0 - self.share

    def find(
        self, model: nn.Module, threat: Threat, x: Tensor, y: Tensor, *, index: Tensor, seed: int, step: int
    ) -> tuple[Tensor, Tensor | None]:
        """Return x' without a graph and, where a single step led to it, the gradient that the step followed.

        Args:
            model: used in eval mode, without parameter gradients, and left as it was
            threat: the whole threat, of which the start takes its share
            x: images
            y: true classes
            index: identity of each example
            seed: seed of the run
            step: the training step
        """
        if self.kind == "zero":
            return x, None
        within = threat.scaled(self.share)
        if self.kind == "random":
            return within.random_start(x, randomness.key(seed, index, "random start", step)), None
        if self.kind == "nfgsm":
            return recalled(lambda: noisy_step(model, within, x, y, index=index, seed=seed, step=step))
        steps = int(self.kind.removeprefix("pgd-"))
        if steps > 1:
            return perturb(model, PGD(steps=steps), within, x, y, index=index, seed=seed, step=step), None
        # The single step of Algorithm 1 is as long as the radius.
        attack = PGD(steps=1, step_size=within.eps)
        return recalled(lambda: search(model, attack, within, x, y, index=index, seed=seed, step=step))
