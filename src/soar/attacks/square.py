"""The square attack (Andriushchenko et al., 2020): random search over squares, without any gradient."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from soar import randomness
from soar.attacks.attack import (
    ATTACKS,
    Answer,
    Attack,
    Examples,
    check_counts,
    check_image_shape,
    check_share,
)
from soar.attacks.oracle import margin
from soar.attacks.square_l1 import L1Squares
from soar.attacks.square_l2 import L2Squares
from soar.attacks.square_windows import LinfSquares
from soar.attacks.states import select
from soar.shapes import per_example
from soar.threat import L1, L2, Threat

# What AutoAttack uses; labels name only what differs.
_QUERIES, _SHARE = 5000, 0.8
# Moves are drawn for so many steps at once. Drawing is a chain of small operations, which take for one step
# what they take for many; one by one they were a third of all that the search adds to the model's own time.
_BLOCK = 64


@dataclass(frozen=True)
class SquareState:
    """The best point of each example so far, and the one that is queried now."""

    examples: Examples
    keys: Tensor
    """the random key of each example's search"""
    best: Tensor
    margin: Tensor
    """the margin at the best points"""
    points: Tensor
    step: Tensor
    """how many points have been evaluated"""
    moves: Tensor
    """what was drawn for the steps of a block, one after the other"""
    block: Tensor
    """which block that is, counted from 0"""


@ATTACKS.register("square")
@dataclass(frozen=True, kw_only=True)
class Square(Attack[SquareState]):
    """Random search over square patches that needs predictions only.

    It starts with stripes or tiles and then changes one random square after the other, see `LinfSquares`,
    `L2Squares` and `L1Squares`.

    A move is kept if the margin max_{i != y} z_i - z_y grows, or reaches zero. Squares cover a share p of the
    pixels, halved after 10, 50, 200, 500, 1000, 2000, 4000, 6000 and 8000 moves whatever the budget, as in
    AutoAttack. Unlike there, every example draws squares of its own, images need not be square, all places
    are drawn, and the start counts as one of the queries.

    Args:
        queries: how many predictions each example takes per restart
        restarts: how often the search is started
        p: the share of the pixels that a square covers at first

    >>> Square().label, Square(queries=1000, restarts=2, p=0.3).label
    ('Square', 'Square-1000 p 0.3 x2')
    """

    projects: ClassVar[bool] = True
    gradients: ClassVar[int] = 0
    queries: int = _QUERIES
    restarts: int = 1
    p: float = _SHARE

    def __post_init__(self) -> None:
        check_counts(queries=self.queries, restarts=self.restarts)
        check_share("p", self.p)

    @property
    def label(self) -> str:
        """Return the label: the attack, with the numbers that differ from AutoAttack's."""
        parts = [
            "Square" if self.queries == _QUERIES else f"Square-{self.queries}",
            f"p {float(self.p):g}" if self.p != _SHARE else "",
            f"x{self.restarts}" if self.restarts > 1 else "",
        ]
        return " ".join(filter(None, parts))

    @property
    def budget(self) -> int:
        """The queries of one restart."""
        return self.queries

    def entries(self, classes: int) -> int:  # noqa: ARG002 - the same for any number
        """Count the restarts."""
        return self.restarts

    def start(self, examples: Examples, threat: Threat) -> SquareState:
        """Begin with stripes or tiles."""
        x, keys = examples.x, examples.keys("square")
        check_image_shape(x, "Square")
        points = self._squares(threat).start(x, examples.keys("square start"))
        lowest = torch.full_like(x[:, 0, 0, 0], -torch.inf)
        step = torch.zeros_like(examples.labels)
        moves = self._drawn(examples, keys, step, threat)
        return SquareState(examples, keys, points, lowest, points, step, moves, step)

    def score(self, logits: Tensor, state: SquareState) -> Tensor:
        """Return the margin, toward the goal where there is one."""
        return margin(state.examples, logits)

    def update(self, state: SquareState, answer: Answer, threat: Threat) -> SquareState:
        """Keep the proposal if it is better, and make the next."""
        is_better = (answer.loss > state.margin) | (answer.loss >= 0)
        best = _improved(state, is_better)
        highest = torch.where(is_better, answer.loss, state.margin)
        moves, block = self._moves(state, threat)
        now = moves[torch.arange(len(moves), device=moves.device), state.step % _BLOCK]
        points = self._squares(threat).propose(best, state.examples.x, now)
        return SquareState(state.examples, state.keys, best, highest, points, state.step + 1, moves, block)

    def exhausted(self, state: SquareState) -> Tensor:
        """Return which examples have used all queries."""
        return state.step >= self.queries

    def _moves(self, state: SquareState, threat: Threat) -> tuple[Tensor, Tensor]:
        """Return the block of moves that each example is in, and its number."""
        block = state.step // _BLOCK
        behind = block != state.block
        rows = behind.nonzero()[:, 0]
        if not len(rows):
            return state.moves, block
        drawn = self._drawn(select(state.examples, rows), state.keys[rows], block[rows], threat)
        return state.moves.index_copy(0, rows, drawn), block

    def _drawn(self, examples: Examples, keys: Tensor, block: Tensor, threat: Threat) -> Tensor:
        """Draw the moves of a block of steps, each from the key of its step."""
        steps = block[:, None] * _BLOCK + torch.arange(_BLOCK, device=block.device)
        by_step = randomness.key(
            examples.seed, keys.repeat_interleave(_BLOCK), "black box step", steps.flatten()
        )
        moves = self._squares(threat).moves(by_step, steps.flatten(), examples.x)
        return moves.reshape(len(keys), _BLOCK, -1)

    def _squares(self, threat: Threat) -> LinfSquares | L2Squares:
        kinds: dict[type[Threat], type[LinfSquares | L2Squares]] = {L2: L2Squares, L1: L1Squares}
        return kinds.get(type(threat), LinfSquares)(self.p, threat.radius)


def _improved(state: SquareState, is_better: Tensor) -> Tensor:
    """Return the best points with those that are better now."""
    if is_better.device.type != "cpu":
        # Copying all points does not wait for the device, as finding the rows does.
        return torch.where(per_example(is_better, state.best), state.points, state.best)
    rows = is_better.nonzero()[:, 0]
    return state.best.index_copy(0, rows, state.points[rows]) if len(rows) else state.best
