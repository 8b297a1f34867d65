"""The square attack (Andriushchenko et al., 2020): random search over squares, without any gradient."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

import torch
from torch import Tensor

from soar.attacks import black_box, checks, square_l2, square_linf
from soar.attacks.attack import ATTACKS, Answer, Examples, select
from soar.shapes import per_example
from soar.threat import L2, Threat

# What AutoAttack uses; labels name only what differs.
_QUERIES, _SHARE = 5000, 0.8
# Moves are drawn for so many steps at once. Drawing is a chain of small operations, which take for one step
# what they take for many; one by one they were a third of all that the search adds to the model's own time.
_BLOCK = 64


@dataclass(frozen=True)
class SquareState:
    """The best that each example has seen, and what it asks about now."""

    examples: Examples
    keys: Tensor
    """the random key of each example's search"""
    best: Tensor
    margin: Tensor
    """the margin at the best points"""
    points: Tensor
    step: Tensor
    """how many answers have been given"""
    moves: Tensor
    """what was drawn for the steps of a block, one after the other"""
    block: Tensor
    """which block that is, counted from 0"""


@ATTACKS.register("square")
@dataclass(frozen=True, kw_only=True)
class Square:
    """Random search over square patches that asks for predictions only, linf or l2.

    It starts with stripes or tiles and then changes one random square after the other, see `square_linf` and
    `square_l2`.

    A move is kept if the margin max_{i != y} z_i - z_y grows, or reaches zero. Squares cover a share p of the
    pixels, halved after 10, 50, 200, 500, 1000, 2000, 4000, 6000 and 8000 moves whatever the budget, as in
    AutoAttack. Unlike there, every example draws squares of its own, images need not be square, all places
    are drawn, and the start counts as one of the queries.

    Args:
        queries: how many predictions an example gets in each restart
        restarts: how often the search begins anew
        p: the share of the pixels that a square covers at first

    >>> Square().label, Square(queries=1000, restarts=2, p=0.3).label
    ('Square', 'Square-1000 p 0.3 x2')
    """

    queries: int = _QUERIES
    restarts: int = 1
    p: float = _SHARE
    stays_inside: ClassVar[bool] = True
    """every point lies in the ball"""
    starts_at_image: ClassVar[bool] = False
    """it starts with stripes or tiles"""

    def __post_init__(self) -> None:
        checks.count(queries=self.queries, restarts=self.restarts)
        checks.share(p=self.p)

    @property
    def label(self) -> str:
        """Name the attack, with the numbers that differ from AutoAttack's."""
        parts = ["Square" if self.queries == _QUERIES else f"Square-{self.queries}"]
        parts += [
            "" if self.p == _SHARE else f"p {float(self.p):g}",
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
        """Ask about stripes or tiles."""
        x, keys = examples.x, examples.keys("square")
        black_box.check_shape(x, "Square")
        points = _geometry(threat).start(x, examples.keys("square start"), threat.radius)
        lowest = torch.full_like(x[:, 0, 0, 0], -torch.inf)
        step = torch.zeros_like(examples.labels)
        moves = self._drawn(examples, keys, step, threat)
        return SquareState(examples, keys, points, lowest, points, step, moves, step)

    def query(self, state: SquareState) -> Tensor:
        """Ask for the proposed points."""
        return state.points

    def wants_gradient(self, state: SquareState) -> Tensor:
        """Never."""
        return torch.zeros_like(state.step, dtype=torch.bool)

    def score(self, logits: Tensor, state: SquareState) -> Tensor:
        """Return the margin, towards the goal where there is one."""
        return black_box.margin(logits, state.examples)

    def update(self, state: SquareState, answer: Answer, threat: Threat) -> SquareState:
        """Keep the proposal if it is better, and make the next."""
        is_better = (answer.loss > state.margin) | (answer.loss >= 0)
        best = torch.where(per_example(is_better, state.best), state.points, state.best)
        margin = torch.where(is_better, answer.loss, state.margin)
        moves, block = self._moves(state, threat)
        now = moves[torch.arange(len(moves), device=moves.device), state.step % _BLOCK]
        points = _geometry(threat).propose(best, state.examples.x, now, self.p, threat.radius)
        return SquareState(state.examples, state.keys, best, margin, points, state.step + 1, moves, block)

    def exhausted(self, state: SquareState) -> Tensor:
        """Return which examples have had all answers."""
        return state.step >= self.queries

    def _moves(self, state: SquareState, threat: Threat) -> tuple[Tensor, Tensor]:
        """Return the block of moves that each example is in, and its number."""
        block = state.step // _BLOCK
        behind = block != state.block
        if not bool(behind.any()):
            return state.moves, block
        moves = state.moves.clone()
        moves[behind] = self._drawn(select(state.examples, behind), state.keys[behind], block[behind], threat)
        return moves, block

    def _drawn(self, examples: Examples, keys: Tensor, block: Tensor, threat: Threat) -> Tensor:
        """Draw the moves of a block of steps, each from the key of its step."""
        steps = block[:, None] * _BLOCK + torch.arange(_BLOCK, device=block.device)
        by_step = black_box.step_keys(examples, keys.repeat_interleave(_BLOCK), steps.flatten())
        moves = _geometry(threat).moves(by_step, steps.flatten(), self.p, examples.x)
        return moves.reshape(len(keys), _BLOCK, -1)


class _Geometry(Protocol):
    """What `square_linf` and `square_l2` have to offer."""

    def start(self, x: Tensor, keys: Tensor, eps: float) -> Tensor:
        """Return the first points."""

    def moves(self, keys: Tensor, iteration: Tensor, share: float, x: Tensor) -> Tensor:
        """Draw what is changed next, a row for every key."""

    def propose(self, best: Tensor, x: Tensor, moves: Tensor, share: float, eps: float) -> Tensor:
        """Change every example's best point by its move."""


def _geometry(threat: Threat) -> _Geometry:
    return square_l2 if isinstance(threat, L2) else square_linf
