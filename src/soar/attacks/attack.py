"""What an attack is: a state machine over examples, so that one engine can run them all.

An attack is a frozen recipe of numbers with no model in it. It never loops and never calls the model:

1. `start` makes a state for some examples, tensors whose first dimension counts them;
2. `query` says which point each example wants evaluated next;
3. `update` takes the model's answer and moves on;
4. `exhausted` says who has used up the budget.

Every operation treats examples independently. That is what lets the engine mix examples at different
iterations in one batch, drop the ones that are finished and let others take their place.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

import torch
from torch import Tensor

from soar import randomness
from soar.attacks import checks
from soar.errors import UserError
from soar.registry import Registry
from soar.threat import Threat


@dataclass(frozen=True)
class Examples:
    """What an attack is told about the examples it starts on."""

    x: Tensor
    """clean images in [0, 1]"""
    labels: Tensor
    """true classes"""
    goal: Tensor
    """the class to end in, or -1 where any wrong class will do"""
    row: Tensor
    """position among the images that the engine was given"""
    index: Tensor
    """identity of each example; random numbers depend on it and not on its place in a batch"""
    entry: Tensor
    """which of the example's queue of restarts and targets this is, counted from 0"""
    logits: Tensor | None
    """the model's answer at x, where it is known"""
    seed: int

    def keys(self, stream: str) -> Tensor:
        """Return each example's random key for one purpose in this entry of its queue."""
        return randomness.key(self.seed, self.index, stream, self.entry)


class Answer(NamedTuple):
    """What the model said about the points an attack asked for."""

    logits: Tensor
    loss: Tensor
    """the attack's own loss, one number an example"""
    gradient: Tensor | None
    """gradient of the loss at the points; None if no example wanted it"""


class State(Protocol):
    """Where each example of an attack stands: a frozen dataclass of tensors, one row an example."""

    @property
    def examples(self) -> Examples:
        """The examples the rows belong to."""


S = TypeVar("S")


class Attack(Protocol[S]):
    """One way to search the threat set; `check_attack` proves that an implementation is sound."""

    @property
    def label(self) -> str:
        """A short name with the numbers that matter, such as "PGD-20 x5"."""

    @property
    def stays_inside(self) -> bool:
        """Whether every query lies in the ball; a minimum-norm attack may look outside."""

    @property
    def starts_at_image(self) -> bool:
        """Whether the first query is the clean image, so that its answer also tells who is right there."""

    @property
    def budget(self) -> int:
        """How many predictions one entry of the queue takes at most."""

    def entries(self, classes: int) -> int:
        """Count the restarts and targets that make up an example's queue."""

    def start(self, examples: Examples, threat: Threat) -> S:
        """Make the first state."""

    def query(self, state: S) -> Tensor:
        """Return the points to evaluate next."""

    def wants_gradient(self, state: S) -> Tensor:
        """Return for each example whether the answer must carry a gradient."""

    def score(self, logits: Tensor, state: S) -> Tensor:
        """Return the number that each example climbs."""

    def update(self, state: S, answer: Answer, threat: Threat) -> S:
        """Take the model's answer and move on."""

    def exhausted(self, state: S) -> Tensor:
        """Return for each example whether the budget is used up."""


def require_attack(given: object) -> None:
    """Refuse what is not an attack: a class in place of an object, or something with a part missing.

    Raises:
        UserError: what was got, and what an attack has

    >>> require_attack("pgd")
    Traceback (most recent call last):
    soar.errors.UserError: attack: got a str, expected an object with label, stays_inside, ...
    """
    if isinstance(given, type):
        raise UserError(f"attack: got the class {given.__name__}, expected an object: {given.__name__}(...)")
    needed = [name for name in vars(Attack) if not name.startswith("_")]
    missing = [name for name in needed if not hasattr(type(given), name) and not hasattr(given, name)]
    if len(missing) == len(needed):
        shown = f"{', '.join(needed[:2])}, ..."
        raise UserError(f"attack: got a {type(given).__name__}, expected an object with {shown}")
    if missing:
        raise UserError(
            f"attack: {type(given).__name__} has no {', '.join(missing)}; see soar.attacks.Attack"
        )


@dataclass(frozen=True)
class Planned:
    """One attack of an evaluation.

    Args:
        attack: the recipe
        survivors_only: attack only the examples that all attacks before it have left; otherwise every example
            that is correctly classified
        samples: how often a randomized model is asked at each point; its answers are averaged
    """

    attack: Attack[Any]
    survivors_only: bool = False
    samples: int = 1

    def __post_init__(self) -> None:
        require_attack(self.attack)
        checks.count(samples=self.samples)


@runtime_checkable
class Spends(Protocol):
    """An attack that asks the model by itself when it starts, as those of other libraries do."""

    def spent(self, state: Any) -> tuple[Tensor, Tensor]:
        """Return the predictions and the gradients that starting took, one number an example."""


T = TypeVar("T")


def size(state: State) -> int:
    """Count the examples of a state."""
    return len(state.examples.labels)


def select(state: T, which: Tensor) -> T:
    """Keep the rows of a state that a mask or a list of positions names.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Pair:
    ...     left: Tensor
    ...     right: Tensor
    >>> select(Pair(torch.arange(3), torch.ones(3, 2)), torch.tensor([True, False, True])).left
    tensor([0, 2])
    """
    # A mask would be searched through anew for every tensor of the state.
    places = which.nonzero()[:, 0] if which.dtype == torch.bool else which
    kept: T = _map(lambda part: part[places], state)
    return kept


def join(first: T, second: T) -> T:
    """Put the rows of two states one after the other."""
    both: T = _map(lambda one, other: torch.cat([one, other]), first, second)
    return both


def _map(function: Any, *states: Any) -> Any:
    """Apply a function to every tensor of one or more states of the same make."""
    if isinstance(states[0], Tensor):
        return function(*states)
    if is_dataclass(states[0]) and not isinstance(states[0], type):
        names = [field.name for field in fields(states[0])]
        parts = {name: _map(function, *(getattr(state, name) for state in states)) for name in names}
        return replace(states[0], **parts)
    return states[0]


ATTACKS: Registry[Attack[Any]] = Registry("attack")
"""the attacks that recipes and the command line know by name"""
