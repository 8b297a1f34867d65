"""What an attack is: a state machine over examples, so that one engine can run them all.

An attack is a frozen recipe of numbers with no model in it. It never loops and never calls the model:

1. `start` makes a state for some examples, tensors whose first dimension counts them;
2. `query` returns the point at which each example is evaluated next;
3. `update` takes the model's outputs there and moves on;
4. `exhausted` returns which examples have used up the budget.

Every operation treats examples independently. That is what lets the engine mix examples at different
iterations in one batch, drop the ones that are finished and let others take their place.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol, TypeVar, get_args

import torch
from torch import Tensor

from soar import randomness, values
from soar.errors import UserError, shown, unknown
from soar.registry import Registry
from soar.threat import Threat


@dataclass(frozen=True)
class Examples:
    """The examples that an attack starts on."""

    x: Tensor
    """clean images in [0, 1]"""
    labels: Tensor
    """true classes"""
    goal: Tensor
    """the target class, or -1 where any wrong class is a success"""
    row: Tensor
    """position among the images that the engine was given"""
    index: Tensor
    """identity of each example; random numbers depend on it and not on its place in a batch"""
    entry: Tensor
    """which of the example's queue of restarts and targets this is, counted from 0"""
    logits: Tensor | None
    """the model's logits at x, where they are known"""
    seed: int
    has_goal: bool = False
    """whether any example of the run has a goal; a loss is then climbed toward it"""

    @classmethod
    def of(
        cls,
        x: Tensor,
        labels: Tensor,
        *,
        index: Tensor | None = None,
        goal: Tensor | None = None,
        entry: int = 0,
        logits: Tensor | None = None,
        seed: int = 0,
    ) -> Examples:
        """Make the examples of a batch; by default untargeted and identified by their position."""
        labels = labels.to(x.device)
        row = torch.arange(len(labels), device=x.device)
        return cls(
            x=x,
            labels=labels,
            goal=torch.full_like(labels, -1) if goal is None else goal.to(x.device),
            row=row,
            index=row if index is None else index.to(x.device),
            entry=torch.full_like(labels, entry),
            logits=logits,
            seed=seed,
            has_goal=goal is not None and bool((goal >= 0).any()),
        )

    def keys(self, stream: str) -> Tensor:
        """Return each example's random key for one purpose in this entry of its queue."""
        return randomness.key(self.seed, self.index, stream, self.entry)


class Answer(NamedTuple):
    """The model's outputs at the points that an attack queried."""

    logits: Tensor
    loss: Tensor
    """the attack's own loss, one number per example"""
    gradient: Tensor | None
    """gradient of the loss at the points; None if no example wanted it"""


class State(Protocol):
    """The state of each example of an attack: a frozen dataclass of tensors, one row per example."""

    @property
    def examples(self) -> Examples:
        """The examples the rows belong to."""


S = TypeVar("S", bound=State)


class Attack(Protocol[S]):
    """One way to search the threat set; `check_attack` proves that an implementation is sound.

    An attack need not be a subclass. One that is inherits what most attacks have in common: it stays in the
    ball, starts elsewhere than at the image, runs once per example, queries `state.points` and no gradient.
    An attribute `projects` that is true promises that queries need no projection by the engine, and an
    attribute `gradients` is the number of gradients that every example takes, if it is known beforehand. A
    method `against(threat)` may return another attack, which then takes its place for that threat.
    """

    @property
    def label(self) -> str:
        """A short name with the numbers that matter, such as "PGD-20 x5"."""

    @property
    def stays_inside(self) -> bool:
        """Whether every query lies in the ball; a minimum-norm attack may look outside."""
        return True

    @property
    def starts_at_image(self) -> bool:
        """Whether the first query is the clean image, which also shows if it is correctly classified."""
        return False

    @property
    def budget(self) -> int:
        """How many predictions one entry of the queue takes at most."""

    def entries(self, classes: int) -> int:  # noqa: ARG002 - one for any number
        """Count the restarts and targets that make up an example's queue."""
        return 1

    def start(self, examples: Examples, threat: Threat) -> S:
        """Make the first state."""

    def query(self, state: S) -> Tensor:
        """Return the points to evaluate next."""
        points: Tensor = state.points  # type: ignore[attr-defined]
        return points

    def wants_gradient(self, state: S) -> Tensor:
        """Return for each example whether the answer must carry a gradient."""
        return torch.zeros_like(state.examples.labels, dtype=torch.bool)

    def score(self, logits: Tensor, state: S) -> Tensor:
        """Return the number that each example climbs."""

    def update(self, state: S, answer: Answer, threat: Threat) -> S:
        """Take the model's outputs and move on."""

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
        first = f"{', '.join(needed[:2])}, ..."
        raise UserError(f"attack: got a {type(given).__name__}, expected an object with {first}")
    if missing:
        raise UserError(
            f"attack: {type(given).__name__} has no {', '.join(missing)}; see soar.attacks.Attack"
        )


def fitted(attack: Attack[Any], threat: Threat) -> Attack[Any]:
    """Return an attack as it is run against a threat: what its method `against` returns, where it has one."""
    found: Attack[Any] = attack.against(threat) if hasattr(attack, "against") else attack
    return found


def check_counts(*, least: int = 1, **counts: int) -> None:
    """Check that options of an attack are whole numbers of at least so much.

    >>> check_counts(steps=0)
    Traceback (most recent call last):
    soar.errors.UserError: attack.steps: got 0, expected at least 1
    """
    for name, value in counts.items():
        values.whole(value, f"attack.{name}", least=least, flag="")


def check_share(name: str, value: float) -> None:
    """Check that an option of an attack is above 0 and at most 1.

    >>> check_share("p", 2)
    Traceback (most recent call last):
    soar.errors.UserError: attack.p: got 2, expected a share above 0 and at most 1
    """
    values.number(value, f"attack.{name}")
    if not 0 < value <= 1:
        raise UserError(f"attack.{name}: got {shown(value)}, expected a share above 0 and at most 1")


def check_choice(name: str, value: str, kind: object) -> None:
    """Check that an option of an attack is one of the names of a `Literal` type."""
    if not isinstance(value, str) or value not in get_args(kind):
        raise unknown(name, value, get_args(kind), f"attack.{name}")


def check_image_shape(x: Tensor, attack: str) -> None:
    """Check that images have channels, rows and columns, along which a search over pixels moves."""
    if x.dim() != 4:
        raise UserError(
            f"images: got shape {tuple(x.shape)}, expected (examples, channels, height, width) for {attack}"
        )


Condition = Literal["always", "unsound", "random"]


@dataclass(frozen=True)
class Planned:
    """One attack of an evaluation.

    Args:
        attack: the recipe
        survivors_only: attack only the examples that all attacks before it have left; otherwise every example
            that is correctly classified
        samples: how often a randomized model is evaluated at each point; its logits are averaged
        condition: whether it is run always; only where checks of what the others found give reasons to doubt
            it ("unsound"); or only on a model whose outputs are random
    """

    attack: Attack[Any]
    survivors_only: bool = False
    samples: int = 1
    condition: Condition = "always"

    def __post_init__(self) -> None:
        require_attack(self.attack)
        check_counts(samples=self.samples)
        check_choice("condition", self.condition, Condition)


ATTACKS: Registry[Attack[Any]] = Registry("attack")
"""the attacks that recipes and the command line know by name"""
