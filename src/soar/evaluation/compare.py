"""Several assessments: joined into one where they belong together, or compared on the same examples."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from soar.errors import UserError, printable
from soar.evaluation.assessment import CLEAN, WORST, Assessment, AttackResult, tensors
from soar.evaluation.corruptions import stack_corruptions
from soar.evaluation.diagnosis import SEVERITY
from soar.evaluation.interval import paired, share_of
from soar.evaluation.rendering import Rendered
from soar.evaluation.table import comparison_table
from soar.text import points

if TYPE_CHECKING:
    from rich.table import Table


def join(assessments: Sequence[Assessment]) -> Assessment:
    """Join assessments into one: any attacks on any parts of the same examples, in any order.

    Attacks and examples come in the order in which they are met. What belongs to the whole, such as the
    environment, is that of the first; of several diagnoses the most severe is kept.

    Args:
        assessments: of the same model, data, threat and seed; each attack once for each example

    Raises:
        UserError: if they do not belong together, or an attack does not cover all examples
    """
    if not assessments:
        raise UserError("got no assessments to join, expected at least one")
    first = assessments[0]
    for other in assessments[1:]:
        _check_belongs(first, other)
    pieces: dict[str, list[Assessment]] = {}
    for one in assessments:
        for result in one.attacks:
            pieces.setdefault(result.label, []).append(replace(one, attacks=(result,)))
    bare = [one for one in assessments if not one.attacks]
    whole, *others = [_stack(parts) for parts in (*pieces.values(), bare) if parts]
    for other in others:
        whole = _beside(whole, other)
    diagnoses = [one.diagnosis for one in assessments if one.diagnosis is not None]
    return replace(
        whole,
        notes=tuple(dict.fromkeys(note for one in assessments for note in one.notes)),
        environment=first.environment,
        classes=max((one.classes for one in assessments), key=len),
        weights=next((one.weights for one in assessments if one.weights), None),
        diagnosis=max(diagnoses, key=lambda one: (SEVERITY[one.verdict], one.is_complete), default=None),
    )


@dataclass(frozen=True, kw_only=True)
class Difference:
    """How often each of two models is correct under one attack, on the same examples."""

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
    """examples that only the first classifies correctly"""
    only_second: int


@dataclass(frozen=True, kw_only=True)
class Comparison(Rendered):
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

    def __repr__(self) -> str:
        worst = self.rows[-1]
        about = f"{self.first} minus {self.second} on {self.examples} images of {self.data}, {self.threat}"
        return printable(f"<Comparison: {about}: {points(worst.difference)} {worst.name}>")

    def __rich__(self) -> Table:
        return comparison_table(self)


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
    here, there = rows_in_common(first.index, second.index)
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


def _check_belongs(first: Assessment, other: Assessment) -> None:
    for name in ("model", "data", "threat", "seed"):
        one, two = getattr(first, name), getattr(other, name)
        if one != two:
            raise UserError(f"assessments differ in {name}: got {one} and {two}")
    if first.weights and other.weights and first.weights.sha256 != other.weights.sha256:
        raise UserError(f"assessments differ in weights: got {first.weights} and {other.weights}")
    if first.classes and other.classes and first.classes != other.classes:
        raise UserError("assessments differ in the names of the classes")


def _stack(parts: Sequence[Assessment]) -> Assessment:
    """Join parts with the same attack, or with none, that cover different examples."""
    results = [result for part in parts for result in part.attacks]
    for result in results:
        for name in ("name", "parameters", "survivors_only", "samples"):
            one, two = getattr(results[0], name), getattr(result, name)
            if one != two:
                raise UserError(f"attack '{result.label}' differs in {name}: got {one} and {two}")
    corruptions = stack_corruptions([part.corruptions for part in parts])
    stacked = replace(parts[0], corruptions=corruptions, **_concatenated(parts))
    numbers, counts = stacked.index.unique(return_counts=True)
    if bool((counts > 1).any()):
        kind = f"attack '{results[0].label}'" if results else "assessments"
        twice = int(numbers[counts > 1][0])
        raise UserError(f"{kind}: got example {twice} more than once, expected each example once")
    if not results:
        return stacked
    # Parts run side by side, so the slowest counts.
    seconds = max(one.seconds for one in results)
    return replace(stacked, attacks=(replace(results[0], seconds=seconds, **_concatenated(results)),))


def _concatenated(records: Sequence[Assessment | AttackResult]) -> dict[str, Any]:
    """Return the tensors of all records one after the other, or None if one of them is not known."""
    columns = {name: [getattr(one, name) for one in records] for name in tensors(records[0])}
    return {
        name: None if any(part is None for part in parts) else torch.cat(parts)
        for name, parts in columns.items()
    }


def _beside(one: Assessment, other: Assessment) -> Assessment:
    """Join different attacks on the same examples."""
    if not torch.equal(one.index.sort().values, other.index.sort().values):
        raise UserError(
            f"{_named(one)} was run on {len(one)} examples and {_named(other)} on {len(other)},"
            " expected the same examples for every attack"
        )
    other = other.select(rows_in_common(one.index, other.index)[1])
    if not torch.equal(one.labels, other.labels):
        raise UserError("assessments differ in the labels of the same examples")
    if not torch.equal(one.correct, other.correct):
        raise UserError("assessments differ in which clean images are correctly classified")
    known = other.clean_predictions if one.clean_predictions is None else one.clean_predictions
    corruptions = other.corruptions if one.corruptions is None else one.corruptions
    attacks = (*one.attacks, *other.attacks)
    return replace(one, clean_predictions=known, corruptions=corruptions, attacks=attacks)


def _named(one: Assessment) -> str:
    return f"attack '{one.attacks[-1].label}'" if one.attacks else "no attack"


def _difference(name: str, first: Tensor, second: Tensor) -> Difference:
    difference, low, high = paired(first, second)
    return Difference(
        name=name,
        first=share_of(first),
        second=share_of(second),
        difference=difference,
        low=low,
        high=high,
        only_first=int((first & ~second).sum()),
        only_second=int((second & ~first).sum()),
    )


def rows_in_common(first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
    """Return the rows of the examples that both hold, in the order of the first."""
    places = {number: row for row, number in enumerate(second.tolist())}
    pairs = [(row, places[number]) for row, number in enumerate(first.tolist()) if number in places]
    rows = torch.tensor(pairs, dtype=torch.int64, device="cpu").reshape(-1, 2)
    return rows[:, 0], rows[:, 1]


def _keys(found: Assessment) -> dict[str, Any]:
    """Return for each attack a value that is equal where the same was done."""
    keys: dict[str, Any] = {}
    for result in found.attacks:
        numbers = json.dumps(result.parameters, sort_keys=True)
        before = tuple(keys.items()) if result.survivors_only else None
        keys[result.label] = (result.name, numbers, result.samples, before)
    return keys


def _only(found: Assessment, labels: list[str]) -> Assessment:
    return replace(found, attacks=tuple(result for result in found.attacks if result.label in labels))
