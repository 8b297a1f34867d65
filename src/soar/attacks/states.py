"""Rows of states: take some, put states together, cut a batch off."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

import torch
from torch import Tensor

from soar.attacks.attack import S, State

T = TypeVar("T")


def size(state: State | None) -> int:
    """Count the examples of a state, if there is any."""
    return 0 if state is None else len(state.examples.labels)


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


def join(first: S | None, second: S | None) -> S | None:
    """Put the rows of two states one after the other; either may be missing."""
    if first is None or second is None:
        return second if first is None else first
    both: S = _map(lambda one, other: torch.cat([one, other]), first, second)
    return both


def cut(state: S, count: int) -> tuple[S, S | None]:
    """Take the first `count` rows off a state."""
    if size(state) <= count:
        return state, None
    rows = torch.arange(size(state), device=state.examples.labels.device)
    return select(state, rows[:count]), select(state, rows[count:])


def _map(function: Any, *states: Any) -> Any:
    """Apply a function to every tensor of one or more states of the same type."""
    if isinstance(states[0], Tensor):
        return function(*states)
    if is_dataclass(states[0]) and not isinstance(states[0], type):
        names = [field.name for field in fields(states[0])]
        parts = {name: _map(function, *(getattr(state, name) for state in states)) for name in names}
        return replace(states[0], **parts)
    return states[0]
