"""Two assessments of the same examples side by side: who is right more often, and how sure that is."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from soar.errors import UserError
from soar.evaluation.assessment import CLEAN, WORST, Assessment
from soar.evaluation.interval import paired


@dataclass(frozen=True, kw_only=True)
class Difference:
    """How often each of two models is right under one attack, on the same examples."""

    name: str
    """an attack's label, "clean" or "worst case" """
    first: float
    second: float
    difference: float
    """first minus second"""
    low: float
    """the lower end of the 95% interval of the difference"""
    high: float
    only_first: int
    """examples that only the first gets right"""
    only_second: int


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Differences between two assessments, the worst case last."""

    first: str
    """what the first model is called"""
    second: str
    data: str
    threat: str
    examples: int
    """how many examples both hold"""
    left_out: int
    """how many examples only one of them holds"""
    attacks_left_out: tuple[str, ...]
    """labels of attacks that only one of them holds, or that they ran with other numbers"""
    rows: tuple[Difference, ...]


def compare(first: Assessment, second: Assessment) -> Comparison:
    """Compare two assessments on the examples and the attacks that both hold.

    The worst case is that of the attacks in common: more attacks on one of them would make it look worse. An
    attack that met only survivors is in common only if all attacks before it are.

    Args:
        first: of any model
        second: of the same data under the same threat

    Raises:
        UserError: if data or threat differ, or no example is in common
    """
    for name in ("data", "threat"):
        one, two = getattr(first, name), getattr(second, name)
        if one != two:
            raise UserError(f"assessments cannot be compared, they differ in {name}: got {one} and {two}")
    here, there = _rows_in_common(first.index, second.index)
    if not len(here):
        raise UserError("assessments cannot be compared, they have no example in common")
    mine, other = first.select(here), second.select(there)
    if not torch.equal(mine.labels, other.labels):
        place = int((mine.labels != other.labels).nonzero()[0])
        raise UserError(
            f"assessments cannot be compared, example {int(mine.index[place])} has label"
            f" {int(mine.labels[place])} in one and {int(other.labels[place])} in the other"
        )
    keys = _keys(first), _keys(second)
    common = [label for label, key in keys[0].items() if keys[1].get(label) == key]
    mine, other = _only(mine, common), _only(other, common)
    names = [CLEAN, *common, *([WORST] if common else [])]
    return Comparison(
        first=first.model,
        second=second.model,
        data=first.data,
        threat=str(first.threat),
        examples=len(mine),
        left_out=len(first) + len(second) - 2 * len(mine),
        attacks_left_out=tuple(label for label in dict.fromkeys([*keys[0], *keys[1]]) if label not in common),
        rows=tuple(_difference(name, mine.survivors(name), other.survivors(name)) for name in names),
    )


def _difference(name: str, first: Tensor, second: Tensor) -> Difference:
    difference, low, high = paired(first, second)
    return Difference(
        name=name,
        first=int(first.sum()) / len(first),
        second=int(second.sum()) / len(second),
        difference=difference,
        low=low,
        high=high,
        only_first=int((first & ~second).sum()),
        only_second=int((second & ~first).sum()),
    )


def _rows_in_common(first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
    """Return the rows of the examples that both hold, in the order of the first."""
    places = {number: row for row, number in enumerate(second.tolist())}
    pairs = [(row, places[number]) for row, number in enumerate(first.tolist()) if number in places]
    rows = torch.tensor(pairs, dtype=torch.int64).reshape(-1, 2)
    return rows[:, 0], rows[:, 1]


def _keys(found: Assessment) -> dict[str, Any]:
    """Return each attack a value that is equal where the same was done."""
    keys: dict[str, Any] = {}
    for result in found.attacks:
        numbers = json.dumps(result.parameters, sort_keys=True)
        before = tuple(keys.items()) if result.survivors_only else None
        keys[result.label] = (result.name, numbers, result.samples, before)
    return keys


def _only(found: Assessment, labels: list[str]) -> Assessment:
    return replace(found, attacks=tuple(result for result in found.attacks if result.label in labels))
