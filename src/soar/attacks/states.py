"""Rows of states: take some, put them together, cut a batch off."""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

from soar.attacks.attack import S
from soar.attacks.queue import QueueEntry

T = TypeVar("T")


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
    # A mask would be searched again for every tensor of the state.
    places = which.nonzero()[:, 0] if which.dtype == torch.bool else which
    kept: T = _map(lambda part: part[places], state)
    return kept


@dataclass(frozen=True)
class Lane(Generic[S]):
    """Rows of a state, and what decides when it is their turn: the host knows it, and need not ask a GPU."""

    state: S
    jobs: list[QueueEntry]
    """the entry of the queue that each row belongs to"""
    wants: list[bool]
    """whether its next answer must carry a gradient"""

    def __len__(self) -> int:
        return len(self.jobs)

    def pick(self, places: list[int]) -> Lane[S] | None:
        """Keep some of the rows."""
        if len(places) == len(self.jobs):
            return self
        if not places:
            return None
        rows = torch.tensor(places, device=self.state.examples.labels.device)
        jobs, wants = [self.jobs[place] for place in places], [self.wants[place] for place in places]
        return Lane(select(self.state, rows), jobs, wants)

    def cut(self, count: int) -> tuple[Lane[S] | None, Lane[S] | None]:
        """Take the first `count` rows off the others."""
        places = list(range(len(self)))
        return self.pick(places[:count]), self.pick(places[count:])


def join(first: Lane[S] | None, second: Lane[S] | None) -> Lane[S] | None:
    """Put the rows of two lanes one after the other; either may be missing."""
    if first is None or second is None:
        return second if first is None else first
    both: S = _map(lambda one, other: torch.cat([one, other]), first.state, second.state)
    return Lane(both, first.jobs + second.jobs, first.wants + second.wants)


def _map(function: Any, *states: Any) -> Any:
    """Apply a function to every tensor of one or more states of the same type."""
    if isinstance(states[0], Tensor):
        return function(*states)
    if is_dataclass(states[0]) and not isinstance(states[0], type):
        names = [field.name for field in fields(states[0])]
        parts = {name: _map(function, *(getattr(state, name) for state in states)) for name in names}
        return replace(states[0], **parts)
    return states[0]
