"""Joining assessments: attacks that were run apart, and examples that were shared out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

import torch
from torch import Tensor

from soar.errors import UserError
from soar.evaluation.attack_result import AttackResult
from soar.evaluation.diagnosis import SEVERITY, Diagnosis

if TYPE_CHECKING:
    from soar.evaluation.assessment import Assessment

T = TypeVar("T")


def join(assessments: Sequence[Assessment]) -> Assessment:
    """Make one assessment of several: any attacks on any parts of the same examples, in any order.

    Attacks and examples come in the order in which they are met. What is said of the whole, such as the
    environment, is that of the first; of several diagnoses the gravest is kept.

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
    return replace(
        whole,
        notes=tuple(dict.fromkeys(note for one in assessments for note in one.notes)),
        environment=first.environment,
        classes=max((one.classes for one in assessments), key=len),
        weights=next((one.weights for one in assessments if one.weights), None),
        diagnosis=_gravest([one.diagnosis for one in assessments if one.diagnosis is not None]),
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
    """Put parts with the same attack, or with none, one below the other."""
    first = parts[0]
    for result in (result for part in parts for result in part.attacks):
        for name in ("name", "parameters", "survivors_only", "samples"):
            one, two = getattr(first.attacks[0], name), getattr(result, name)
            if one != two:
                raise UserError(f"attack '{result.label}' differs in {name}: got {one} and {two}")
    index = torch.cat([part.index for part in parts])
    numbers, counts = index.unique(return_counts=True)
    if bool((counts > 1).any()):
        kind = f"attack '{first.attacks[0].label}'" if first.attacks else "assessments"
        twice = int(numbers[counts > 1][0])
        raise UserError(f"{kind}: got example {twice} more than once, expected each example once")
    return replace(
        first,
        index=index,
        labels=torch.cat([part.labels for part in parts]),
        correct=torch.cat([part.correct for part in parts]),
        predicted=_cat(parts, lambda part: part.predicted),
        attacks=_stacked_results([part.attacks for part in parts]),
    )


def _stacked_results(parts: Sequence[tuple[AttackResult, ...]]) -> tuple[AttackResult, ...]:
    """Join what one attack did to each part; parts run side by side, so the slowest counts."""
    results = [result for part in parts for result in part]
    if not results:
        return ()
    joined = replace(
        results[0],
        robust=torch.cat([one.robust for one in results]),
        forward=torch.cat([one.forward for one in results]),
        backward=torch.cat([one.backward for one in results]),
        seconds=max(one.seconds for one in results),
        said=_cat(results, lambda one: one.said),
    )
    return (joined,)


def _beside(one: Assessment, other: Assessment) -> Assessment:
    """Put the attacks of assessments of the same examples beside each other."""
    if not torch.equal(one.index.sort().values, other.index.sort().values):
        raise UserError(
            f"{_named(one)} was run on {len(one)} examples and {_named(other)} on {len(other)},"
            " expected the same examples for every attack"
        )
    # Numbers are different, so sorting both ways gives the place of each example in the other.
    other = other.select(other.index.argsort()[one.index.argsort().argsort()])
    if not torch.equal(one.labels, other.labels):
        raise UserError("assessments differ in the labels of the same examples")
    if not torch.equal(one.correct, other.correct):
        raise UserError("assessments differ in which clean images are correctly classified")
    predicted = other.predicted if one.predicted is None else one.predicted
    return replace(one, predicted=predicted, attacks=(*one.attacks, *other.attacks))


def _named(one: Assessment) -> str:
    return f"attack '{one.attacks[-1].label}'" if one.attacks else "no attack"


def _cat(parts: Sequence[T], of: Callable[[T], Tensor | None]) -> Tensor | None:
    """Put tensors behind each other, if all are known."""
    known = [tensor for part in parts if (tensor := of(part)) is not None]
    return torch.cat(known) if len(known) == len(parts) else None


def _gravest(diagnoses: Sequence[Diagnosis]) -> Diagnosis | None:
    """Keep the diagnosis with the gravest verdict, and among equals one that made all checks."""
    return max(diagnoses, key=lambda one: (SEVERITY[one.verdict], one.is_whole), default=None)
