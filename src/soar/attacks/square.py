"""The square attack (Andriushchenko et al., 2020): random search over squares, without any gradient."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from soar import randomness
from soar.attacks import black_box, square_l2
from soar.attacks.attack import Answer, Examples
from soar.attacks.registry import ATTACKS
from soar.attacks.square_windows import level, place, signs, square_sides
from soar.errors import UserError
from soar.shapes import per_example
from soar.threat import L2, Threat

# What AutoAttack uses; labels name only what differs.
_QUERIES, _SHARE = 5000, 0.8


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


@ATTACKS.register("square")
@dataclass(frozen=True, kw_only=True)
class Square:
    """Random search over square patches that asks for predictions only, linf or l2.

    linf: it starts with vertical stripes, x + eps or x - eps with one sign for every channel and column. Then
    it moves all pixels of a random square to x + eps or x - eps, with one sign a channel. (From any point of
    the ball, adding 2 eps s and clipping ends there too.) l2: see `square_l2`.

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

    def __post_init__(self) -> None:
        for name in ("queries", "restarts"):
            if getattr(self, name) < 1:
                raise UserError(f"attack.{name}: got {getattr(self, name)}, expected at least 1")
        if not 0 < self.p <= 1:
            raise UserError(f"attack.p: got {self.p}, expected a share above 0 and at most 1")

    @property
    def label(self) -> str:
        """Name the attack, with the numbers that differ from AutoAttack's."""
        parts = ["Square" if self.queries == _QUERIES else f"Square-{self.queries}"]
        parts += [
            "" if self.p == _SHARE else f"p {self.p:g}",
            f"x{self.restarts}" if self.restarts > 1 else "",
        ]
        return " ".join(filter(None, parts))

    @property
    def stays_inside(self) -> bool:
        """Every point lies in the ball."""
        return True

    @property
    def starts_at_image(self) -> bool:
        """It starts with stripes or tiles."""
        return False

    @property
    def budget(self) -> int:
        """The queries of one restart."""
        return self.queries

    def entries(self, classes: int) -> int:  # noqa: ARG002 - the same for any number
        """Count the restarts."""
        return self.restarts

    def start(self, examples: Examples, threat: Threat) -> SquareState:
        """Ask about stripes or tiles."""
        x, keys = examples.x, examples.keys("square start")
        if isinstance(threat, L2):
            points = square_l2.start(x, keys, threat.radius)
        else:
            points = _edge(x, randomness.sign(keys, (x.shape[1], 1, x.shape[3]), x.dtype), threat.radius)
        lowest = torch.full_like(x[:, 0, 0, 0], -torch.inf)
        step = torch.zeros_like(examples.labels)
        return SquareState(examples, examples.keys("square"), points, lowest, points, step)

    def query(self, state: SquareState) -> Tensor:
        """Ask for the proposed points."""
        return state.points

    def wants_gradient(self, state: SquareState) -> Tensor:
        """Never."""
        return torch.zeros_like(state.step, dtype=torch.bool)

    def score(self, logits: Tensor, state: SquareState) -> Tensor:
        """Give the margin, towards the goal where there is one."""
        return black_box.margin(logits, state.examples)

    def update(self, state: SquareState, answer: Answer, threat: Threat) -> SquareState:
        """Keep the proposal if it is better, and make the next."""
        is_better = (answer.loss > state.margin) | (answer.loss >= 0)
        best = torch.where(per_example(is_better, state.best), state.points, state.best)
        margin = torch.where(is_better, answer.loss, state.margin)
        x, keys = state.examples.x, black_box.step_keys(state.examples, state.keys, state.step)
        if isinstance(threat, L2):
            points = square_l2.propose(best, x, keys, state.step, self.p, threat.radius)
        else:
            points = _propose(best, x, keys, state.step, self.p, threat.radius)
        return replace(state, best=best, margin=margin, points=points, step=state.step + 1)

    def exhausted(self, state: SquareState) -> Tensor:
        """Tell who has had all answers."""
        return state.step >= self.queries


def _propose(best: Tensor, x: Tensor, keys: Tensor, iteration: Tensor, share: float, eps: float) -> Tensor:
    """Move one square of every example to the edge of the ball, up or down in each channel."""
    channels, height, width = x.shape[1:]
    side = torch.tensor(square_sides(share, height, width), device=x.device)[level(iteration)]
    draws = randomness.uniform(keys, (2 + channels,), torch.float64)
    inside = place(draws[:, :2], side, height, width).mask(height, width)
    return torch.where(inside, _edge(x, signs(draws[:, 2:], x.dtype)[:, :, None, None], eps), best)


def _edge(x: Tensor, sign: Tensor, eps: float) -> Tensor:
    return torch.add(x, sign, alpha=eps).clamp_(0, 1)
