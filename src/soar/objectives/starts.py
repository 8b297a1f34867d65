"""Where regularizers look: at the image, at a random point near it, or where a short attack ends."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

from torch import Tensor, nn

from soar import randomness, values
from soar.attacks.oracle import perturb
from soar.attacks.pgd import PGD
from soar.errors import UserError, shown
from soar.threat import Threat


@dataclass(frozen=True)
class Start:
    """How the point x' is found at which a regularizer expands the loss, and what is left of eps for it.

    The start may move within `share` of the threat; the regularizer answers for `rest` of it. In the paper's
    Algorithm 1 one step of PGD takes one half and the regularizer the other, so that together they fill
    the ball.

    Args:
        kind: zero, random, or pgd-K for K steps of PGD from a random point
        share: the part of eps within which the start may move, above 0 and at most 1; zero takes none
        rest: the part of eps the regularizer is for; by default what the start leaves

    Raises:
        UserError: if a value makes no sense

    >>> Start("pgd-1", share=0.5).remaining, Start("zero", share=0.5).remaining
    (0.5, 1.0)
    """

    kind: str
    share: float
    rest: float | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.kind, str) or not re.fullmatch(r"zero|random|pgd-[1-9][0-9]{0,5}", self.kind):
            raise UserError(
                f"objective.start: got {shown(self.kind)}, expected zero, random or pgd-K such as pgd-1"
                " (flag --objective.start)"
            )
        values.number(self.share, "objective.start_share")
        if not 0 < self.share <= 1:
            raise UserError(
                f"objective.start_share: got {self.share}, expected above 0 and at most 1"
                " (flag --objective.start_share)"
            )
        if self.rest is not None:
            values.number(self.rest, "objective.penalty_share")
        if self.rest is not None and not 0 <= self.rest <= 1:
            raise UserError(
                f"objective.penalty_share: got {self.rest}, expected from 0 to 1"
                " (flag --objective.penalty_share)"
            )

    @property
    def remaining(self) -> float:
        """The part of eps that the regularizer is for."""
        if self.rest is not None:
            return self.rest
        return 1.0 if self.kind == "zero" else 1.0 - self.share

    def points(
        self, model: nn.Module, threat: Threat, x: Tensor, y: Tensor, *, index: Tensor, seed: int, step: int
    ) -> Tensor:
        """Return x', without a graph.

        Args:
            model: probed in eval mode, without parameter gradients, and left as it was
            threat: the whole threat, of which the start takes its share
            x: images
            y: true classes
            index: identity of each example
            seed: seed of the run
            step: the training step
        """
        if self.kind == "zero":
            return x
        within = threat.scaled(self.share)
        if self.kind == "random":
            return within.random_start(x, randomness.key(seed, index, "random start", step))
        steps = int(self.kind.removeprefix("pgd-"))
        # Algorithm 1 makes its one step as long as the radius.
        length: Fraction | None = within.eps if steps == 1 else None
        attack = PGD(steps=steps, step_size=length)
        return perturb(model, attack, within, x, y, index=index, seed=seed, step=step)
