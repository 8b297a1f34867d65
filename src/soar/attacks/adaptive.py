"""A margin attack that restarts where a restart may still succeed, after A3 (Liu et al., CVPR 2022)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from itertools import compress, count
from typing import ClassVar

import torch
from torch import Tensor

from soar import losses, randomness, values
from soar.attacks.apgd import border_start, with_momentum
from soar.attacks.attack import ATTACKS, Answer, Attack, Examples, check_counts
from soar.attacks.oracle import margin
from soar.attacks.pgd import climb
from soar.attacks.states import select
from soar.errors import UserError
from soar.shapes import per_example
from soar.threat import L2, Threat

_STEPS, _RESTARTS, _PATIENCE = 20, 16, 3.0
# The length of a step falls from eps to this share of it.
_SHORTEST = 0.02
# Runs to one target, and those after them, take so many times the steps of the first.
_LONGER, _LONGEST = 2, 5
# Every other of the last runs begins with so many steps along random weights of the logits.
_SPREADING = 7
# How many wrong classes are climbed to, and from how many they are chosen where there are more of them.
_TARGETS, _CANDIDATES = 9, 30


@dataclass(frozen=True)
class AdaptiveState:
    """The current run of each example, and what all its runs have found so far."""

    examples: Examples
    points: Tensor
    previous: Tensor
    """where the last step began; the momentum points from there"""
    run: Tensor
    """which run this is, counted from 0"""
    step: Tensor
    """how many of its steps have been taken; below 0 while candidates for a target are ranked"""
    target: Tensor
    """the class to climb to, or -1 for whichever is nearest"""
    weights: Tensor
    """of the logits, whose sum the first steps of later runs climb"""
    best: Tensor
    """the highest margin of all points so far"""
    promise: Tensor
    """how good a target each class is: the highest z_t - z_y so far, or minus its linearized distance; -inf
    for the label"""
    tried: Tensor
    """which classes have been climbed to"""
    is_over: Tensor
    """whether there is no further run"""


@ATTACKS.register("adaptive")
@dataclass(frozen=True, kw_only=True)
class Adaptive(Attack[AdaptiveState]):
    r"""Short margin ascents to one target after the other, with more restarts the nearer an example is.

    A run starts at a random corner of the ball (l2: at a random point of its border) and climbs with the
    momentum of Auto-PGD, by steps whose length falls from eps to eps / 50 along a cosine. The first run
    climbs the margin. Each of the next ones takes twice its steps and climbs z_t - z_y to another class t:
    the one that came nearest to the label at any point so far or, with more than 10 classes, the one whose
    border is nearest in the linearized model (MALT, Melamed et al., 2024). That distance is computed for the
    30 most likely classes at the image, and 9 of them are tried:

    (z_y - z_t) / ||\nabla (z_t - z_y)||_*

    The last runs take five times the steps of the first. In turns, they begin with 7 steps of length eps
    along w . z with random weights w, which spreads them over the ball, and climb the margin; or they climb
    to the most promising class once more.

    With m_0 < 0 the margin at the image and m < 0 the highest so far, the r-th restart takes place only if

    r (-m) <= patience (m - m_0),

    so restarts are in inverse proportion to what is missing, in units of what the search has gained. A3 goes
    on with the examples whose margins are the smallest of all; this rule looks at no other example.

    Args:
        steps: how many steps the first run climbs
        restarts: how many runs follow the first at most
        patience: how many restarts an example gets that is half way between the image and the border

    Raises:
        UserError: if a number makes no sense

    >>> Adaptive().label, Adaptive(steps=40, patience=8).label
    ('Adaptive', 'Adaptive 40 steps patience 8')
    """

    projects: ClassVar[bool] = True
    steps: int = _STEPS
    restarts: int = _RESTARTS
    patience: float = _PATIENCE

    def __post_init__(self) -> None:
        check_counts(steps=self.steps)
        check_counts(least=0, restarts=self.restarts)
        values.number(self.patience, "attack.patience")
        if not 0 <= self.patience < math.inf:
            raise UserError(f"attack.patience: got {float(self.patience):g}, expected a number from 0 on")

    @property
    def label(self) -> str:
        """Return the label: the attack, with the numbers that are not the defaults."""
        parts = [
            "Adaptive",
            f"{self.steps} steps" if self.steps != _STEPS else "",
            f"x{self.restarts + 1}" if self.restarts != _RESTARTS else "",
            f"patience {float(self.patience):g}" if self.patience != _PATIENCE else "",
        ]
        return " ".join(filter(None, parts))

    @property
    def budget(self) -> int:
        """The predictions of all runs, and of ranking the candidates."""
        return (self.restarts + 1) * (_SPREADING + _LONGEST * self.steps + 1) + _CANDIDATES

    def start(self, examples: Examples, threat: Threat) -> AdaptiveState:
        """Begin the first run, to whichever class is nearest."""
        logits, nothing = _clean_logits(examples), torch.zeros_like(examples.labels)
        points = _start(examples, nothing, threat)
        return AdaptiveState(
            examples=examples,
            points=points,
            previous=points,
            run=nothing,
            step=nothing,
            target=torch.full_like(nothing, -1),
            weights=torch.zeros_like(logits),
            best=margin(examples, logits),
            promise=_gaps(logits, examples.labels),
            tried=torch.zeros_like(logits, dtype=torch.bool),
            is_over=torch.zeros_like(nothing, dtype=torch.bool),
        )

    def wants_gradient(self, state: AdaptiveState) -> Tensor:
        """Return which examples have a step left in their run."""
        return state.step < self._length(state)

    def score(self, logits: Tensor, state: AdaptiveState) -> Tensor:
        """Return what each example climbs: the weighted sum of logits, z_t - z_y or the margin."""
        toward = losses.targeted_margin(logits, state.examples.labels, state.target.clamp(min=0))
        climbed = torch.where(state.target >= 0, toward, margin(state.examples, logits))
        is_spreading = _spreads(state) & (state.step < _SPREADING)
        return torch.where(is_spreading, (state.weights * logits).sum(dim=1), climbed)

    def update(self, state: AdaptiveState, answer: Answer, threat: Threat) -> AdaptiveState:
        """Take a step, and begin the next run where this one is over."""
        examples, has_step, is_ranking = state.examples, self.wants_gradient(state), state.step < 0
        points = state.points
        if answer.gradient is not None:
            straight = climb(points, answer.gradient, examples.x, threat, self._step_length(state, threat))
            is_moving = state.step > _SPREADING * _spreads(state)
            points = threat.project(with_momentum(points, state.previous, straight, is_moving), examples.x)
        state = replace(
            state,
            points=points,
            previous=state.points,
            step=state.step + 1,
            best=torch.maximum(state.best, margin(examples, answer.logits)),
            promise=_promise(state, answer, threat),
        )
        # Read both at once: each time may wait for a GPU.
        ranking, ended = torch.stack([is_ranking, ~has_step]).tolist()
        state = _changed(state, ranking, lambda some: _aim(some, threat))
        return _changed(state, ended, lambda some: self._restart(some, threat))

    def exhausted(self, state: AdaptiveState) -> Tensor:
        """Return which examples get no further run."""
        return state.is_over

    def _restart(self, state: AdaptiveState, threat: Threat) -> AdaptiveState:
        """Begin the next run, unless examples are too far from the border for it."""
        examples, run = state.examples, state.run + 1
        gained = state.best - margin(examples, _clean_logits(examples))
        is_over = (run > self.restarts) | (run * -state.best > self.patience * gained)
        step, promise, tried, is_first = torch.zeros_like(run), state.promise, state.tried, run == 1
        if _has_many_classes(state):
            candidates = min(_CANDIDATES, promise.shape[1] - 1)
            step = step - candidates * (is_first & (examples.goal < 0))
            promise = torch.where(is_first[:, None], -torch.inf, promise)
        else:
            # The first run has climbed to the class that was nearest.
            nearest = promise.argmax(dim=1, keepdim=True)
            tried = tried.scatter(1, nearest, tried.gather(1, nearest) | is_first[:, None])
        state = replace(state, run=run, step=step, promise=promise, tried=tried, is_over=is_over)
        return _aim(state, threat)

    def _length(self, state: AdaptiveState) -> Tensor:
        """Return how many steps each example's run takes."""
        factor = torch.where(state.run > _targeted_runs(state), _LONGEST, _LONGER)
        return self.steps * torch.where(state.run == 0, 1, factor) + _SPREADING * _spreads(state)

    def _step_length(self, state: AdaptiveState, threat: Threat) -> Tensor:
        before = _SPREADING * _spreads(state)
        share = ((state.step - before) / (self._length(state) - before)).clamp(min=0).to(state.points.dtype)
        return threat.radius * (_SHORTEST + (1 - _SHORTEST) * (1 + (math.pi * share).cos()) / 2)


def _aim(state: AdaptiveState, threat: Threat) -> AdaptiveState:
    """Set what the next step climbs: one more candidate at the image, or the target of a run that begins."""
    examples, run = state.examples, state.run
    is_ranking = state.step < 0
    rank = (state.step + min(_CANDIDATES, state.promise.shape[1] - 1)).clamp(min=0)
    candidate = losses.strongest_targets(_clean_logits(examples), examples.labels, rank)
    # Each class once, and then the most promising one.
    is_new = (run <= _targeted_runs(state))[:, None]
    chosen = state.promise.masked_fill(is_new & state.tried, -torch.inf).argmax(dim=1)
    target = torch.where(_spreads(state) | (examples.goal >= 0), -1, chosen)
    weights = randomness.uniform(
        _keys(examples, run, "weights"), (state.weights.shape[1],), state.weights.dtype
    )
    start = _start(examples, run, threat)
    start = torch.where(per_example(is_ranking, start), examples.x, start)
    return replace(
        state,
        points=start,
        previous=start,
        target=torch.where(is_ranking, candidate, target),
        weights=2 * weights - 1,
        tried=torch.where(is_ranking[:, None], state.tried, state.tried.scatter(1, chosen[:, None], True)),
    )


def _promise(state: AdaptiveState, answer: Answer, threat: Threat) -> Tensor:
    """Return how good a target each class is, with what was found at the latest points."""
    if not _has_many_classes(state):
        gaps = _gaps(answer.logits, state.examples.labels)
        return torch.maximum(state.promise, gaps)
    is_ranking = state.step < 0
    if answer.gradient is None:
        return state.promise
    nearness = answer.loss / threat.dual_norm(answer.gradient).clamp(min=torch.finfo(answer.loss.dtype).tiny)
    ranked = state.promise.scatter(1, state.target.clamp(min=0)[:, None], nearness[:, None])
    return torch.where(is_ranking[:, None], ranked, state.promise)


def _gaps(logits: Tensor, labels: Tensor) -> Tensor:
    """Return z_t - z_y for every class t, and -inf for the label."""
    return (logits - logits.gather(1, labels[:, None])).scatter(1, labels[:, None], -torch.inf)


def _start(examples: Examples, run: Tensor, threat: Threat) -> Tensor:
    """Draw where a run starts: a corner of the linf ball, a point of the border of the l2 ball."""
    x, keys = examples.x, _keys(examples, run, "start")
    if isinstance(threat, L2):
        return border_start(x, keys, threat)
    return threat.project(x + threat.radius * randomness.sign(keys, tuple(x.shape[1:]), x.dtype), x)


def _keys(examples: Examples, run: Tensor, purpose: str) -> Tensor:
    return randomness.key(examples.seed, examples.index, f"adaptive {purpose}", run)


def _clean_logits(examples: Examples) -> Tensor:
    if examples.logits is None:
        raise UserError("attack: Adaptive ranks targets by the clean logits; use soar.attacks.run")
    return examples.logits


def _has_many_classes(state: AdaptiveState) -> bool:
    return state.promise.shape[1] - 1 > _TARGETS


def _targeted_runs(state: AdaptiveState) -> int:
    return min(_TARGETS, state.promise.shape[1] - 2)


def _spreads(state: AdaptiveState) -> Tensor:
    """Return whose run begins along random weights: the first, third, ... after all targets were tried."""
    after = state.run - _targeted_runs(state)
    return (after > 0) & (after % 2 == 1)


def _changed(
    state: AdaptiveState, which: list[bool], change: Callable[[AdaptiveState], AdaptiveState]
) -> AdaptiveState:
    """Change some rows of a state."""
    if not any(which):
        return state
    rows = torch.tensor([*compress(count(), which)], device=state.step.device)
    some = change(select(state, rows))
    names = [one.name for one in fields(state) if one.name != "examples"]
    return replace(
        state, **{name: getattr(state, name).index_copy(0, rows, getattr(some, name)) for name in names}
    )
