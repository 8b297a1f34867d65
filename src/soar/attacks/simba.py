"""SimBA (Guo et al., 2019): try one direction after the other, down and up, without any gradient."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar, Literal

import torch
from torch import Tensor

from soar import epsilon, randomness
from soar.attacks.attack import (
    ATTACKS,
    Answer,
    Attack,
    Examples,
    check_choice,
    check_counts,
    check_image_shape,
    check_share,
)
from soar.attacks.oracle import margin
from soar.errors import UserError
from soar.shapes import per_example
from soar.threat import L1, Linf, Threat

Basis = Literal["pixel", "dct"]
Loss = Literal["probability", "margin"]

_QUERIES, _STEP = 2000, 0.2


@dataclass(frozen=True)
class SimBAState:
    """How far each example has moved, and which move it tries now."""

    examples: Examples
    order: Tensor
    """the directions in the order they are tried, by number, as many as the queries can reach"""
    moved: Tensor
    """the image with all moves that helped, perhaps outside of the ball"""
    highest: Tensor
    """the score there"""
    points: Tensor
    slot: Tensor
    """2 k for the k-th direction downwards, 2 k + 1 upwards; -1 where the image itself is queried"""
    step: Tensor
    """how many moves have been evaluated"""


@ATTACKS.register("simba")
@dataclass(frozen=True, kw_only=True)
class SimBA(Attack[SimBAState]):
    """Greedy search along single pixels or cosine waves that needs predictions only.

    Directions come in an order that is random for every example. Each is tried once: a step down is kept if
    it helps; if not, a step up is kept if that helps. The steps that were kept add up, and their sum is
    brought into the ball for each prediction. The search ends early when no direction is left.

    The published loss is the probability of the true class. Where the softmax is 1 to the last digit no step
    changes it and the search stalls; the margin of the logits goes on.

    Args:
        queries: how many steps are tried per example; the paper on SOAR does not give its number
        basis: pixel (one channel of one pixel) or dct (one cosine wave of one channel)
        loss: what must get worse for the model, probability or margin
        step: length of a step; by default as far as a pixel can go at once, eps in linf and 1 in l1, and
            0.2 for pixels in l2 and for waves
        frequencies: the share of low frequencies in each direction that dct uses; 0.125 is 28 of 224

    >>> SimBA().label, SimBA(basis="dct", loss="margin", queries=500, step=0.1, frequencies=0.5).label
    ('SimBA', 'SimBA-500 DCT 0.5 margin step 0.1')
    """

    gradients: ClassVar[int] = 0
    queries: int = _QUERIES
    basis: Basis = "pixel"
    loss: Loss = "probability"
    step: str | float | Fraction | None = None
    frequencies: float = 1.0

    def __post_init__(self) -> None:
        check_counts(queries=self.queries)
        check_choice("basis", self.basis, Basis)
        check_choice("loss", self.loss, Loss)
        if self.step is not None:
            epsilon.parse(self.step, "attack.step")
        check_share("frequencies", self.frequencies)
        if self.frequencies < 1 and self.basis != "dct":
            raise UserError(f"attack.frequencies: got {self.frequencies}, expected 1 unless basis is dct")

    @property
    def label(self) -> str:
        """Return the label: the attack, with what differs from the plain one."""
        parts = [
            "SimBA" if self.queries == _QUERIES else f"SimBA-{self.queries}",
            "DCT" if self.basis == "dct" else "",
            f"{float(self.frequencies):g}" if self.frequencies < 1 else "",
            self.loss if self.loss != "probability" else "",
            f"step {epsilon.show(epsilon.parse(self.step))}" if self.step is not None else "",
        ]
        return " ".join(filter(None, parts))

    @property
    def starts_at_image(self) -> bool:
        """True: the search needs the logits at the image, and queries them if they are not known."""
        return True

    @property
    def budget(self) -> int:
        """The image, if need be, and the steps."""
        return self.queries + 1

    def start(self, examples: Examples, threat: Threat) -> SimBAState:
        """Begin with the first step, or with the image if its logits are not known."""
        x = examples.x
        check_image_shape(x, "SimBA")
        order = randomness.permutation(examples.keys("simba"), math.prod(self._grid(x)))
        order = order[:, : self.queries].to(torch.int32)
        unknown_yet = torch.full_like(examples.labels, -1)
        lowest = torch.full_like(x[:, 0, 0, 0], -torch.inf)
        state = SimBAState(examples, order, x, lowest, x, unknown_yet, unknown_yet)
        if examples.logits is None:
            return state
        known = self.score(examples.logits, state)
        state = replace(state, highest=known, slot=state.slot + 1, step=state.step + 1)
        return replace(state, points=self._propose(state, threat))

    def score(self, logits: Tensor, state: SimBAState) -> Tensor:
        """Return minus the probability of the true class, or the margin."""
        score = margin if self.loss == "margin" else probability
        return score(state.examples, logits)

    def update(self, state: SimBAState, answer: Answer, threat: Threat) -> SimBAState:
        """Keep the step if it helped; if not, try it upwards or go on to the next direction."""
        helped = answer.loss > state.highest
        moved = torch.where(per_example(helped, state.moved), state.points, state.moved)
        highest = torch.where(helped, answer.loss, state.highest)
        # Dividing rounds down: after the image itself, at slot -1, both ways lead to slot 0.
        slot = torch.where(helped, 2 * (state.slot // 2 + 1), state.slot + 1)
        state = replace(state, moved=moved, highest=highest, slot=slot, step=state.step + 1)
        return replace(state, points=self._propose(state, threat))

    def exhausted(self, state: SimBAState) -> Tensor:
        """Return which examples have used all queries or have no direction left."""
        return (state.step >= self.queries) | (state.slot >= 2 * state.order.shape[1])

    def _propose(self, state: SimBAState, threat: Threat) -> Tensor:
        """Take the step that is to be tried; it does not matter which where none is left."""
        channels, height, width = self._grid(state.moved)
        last = state.order.shape[1] - 1
        number = state.order.gather(1, (state.slot // 2).clamp(max=last)[:, None])[:, 0].long()
        length = (2 * (state.slot % 2) - 1).to(state.moved.dtype) * self._length(threat)
        if self.basis == "pixel":
            flat = state.moved.flatten(1)
            return flat.scatter_add(1, number[:, None], length[:, None]).reshape(state.moved.shape)
        channel, place = number // (height * width), number % (height * width)
        wave = dct_waves(place // width, place % width, state.moved)
        is_meant = channel[:, None] == torch.arange(channels, device=channel.device)
        steps = is_meant * length[:, None]
        return torch.addcmul(state.moved, steps[:, :, None, None], wave[:, None])

    def _grid(self, x: Tensor) -> tuple[int, int, int]:
        """Return the channels, and the rows and columns of pixels or of low frequencies, of the images."""
        channels, height, width = x.shape[1:]
        low_rows, low_columns = (max(round(self.frequencies * size), 1) for size in (height, width))
        return channels, low_rows, low_columns

    def _length(self, threat: Threat) -> float:
        """Return the length of a step."""
        if self.step is not None:
            return float(epsilon.parse(self.step))
        if self.basis == "pixel" and isinstance(threat, Linf | L1):
            return min(threat.radius, 1.0)
        return _STEP


def probability(examples: Examples, logits: Tensor) -> Tensor:
    """Return -p_y, or p_t for an example with the goal t.

    Where the softmax is 1 to the last digit this does not change with the image.
    """
    is_targeted = examples.goal >= 0
    classes = torch.where(is_targeted, examples.goal, examples.labels)
    chance = logits.softmax(dim=1).gather(1, classes[:, None])[:, 0]
    return torch.where(is_targeted, chance, -chance)


@lru_cache(maxsize=8)
def dct_matrix(size: int, dtype: torch.dtype = torch.float64, device: torch.device | str = "cpu") -> Tensor:
    r"""Return the orthonormal DCT-II as a matrix: row u is the wave of frequency u.

    C_{u j} = sqrt((2 - [u = 0]) / n) cos(pi (2 j + 1) u / (2 n))

    Args:
        size: n, the number of samples and of waves
        dtype: the type of the result
        device: where the result is

    >>> dct_matrix(2)
    tensor([[ 0.7071,  0.7071],
            [ 0.7071, -0.7071]], dtype=torch.float64)
    """
    place = torch.arange(size, dtype=torch.float64, device="cpu")
    waves = (math.pi * (2 * place + 1) * place[:, None] / (2 * size)).cos() * math.sqrt(2 / size)
    waves[0] /= math.sqrt(2)
    return waves.to(dtype).to(device)


def dct_waves(down: Tensor, across: Tensor, like: Tensor) -> Tensor:
    """Return one two-dimensional wave of length 1 per example.

    Adding a multiple of it to an image changes one coefficient of the image's transform and no other.

    Args:
        down: frequency along the rows, from 0 to height - 1, one per example
        across: frequency along the columns
        like: images of the wanted height, width, type and device

    >>> dct_waves(torch.tensor([0]), torch.tensor([1]), torch.zeros(1, 1, 2, 2))[0]
    tensor([[ 0.5000, -0.5000],
            [ 0.5000, -0.5000]])
    """
    rows = dct_matrix(like.shape[-2], like.dtype, like.device)[down]
    columns = dct_matrix(like.shape[-1], like.dtype, like.device)[across]
    return rows[:, :, None] * columns[:, None]
