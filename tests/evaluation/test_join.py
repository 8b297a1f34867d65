from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest
import torch

from soar.errors import UserError
from soar.evaluation import Assessment, Note
from soar.evaluation.compare import join
from soar.threat import L2
from tests.evaluation.test_assessment import assessment, diagnosis

A, B, C = Note("batch", "a"), Note("random", "b"), Note("random", "c")


def only(found: Assessment, attack: int, rows: range) -> Assessment:
    picked = found.select(torch.tensor(list(rows)))
    return replace(picked, attacks=picked.attacks[attack : attack + 1])


def test_attacks_on_the_same_examples_stand_beside_each_other() -> None:
    found = assessment()
    assert join([only(found, 0, range(5)), only(found, 1, range(5))]).as_dict() == found.as_dict()


def test_the_same_attacks_on_other_examples_stand_below_each_other() -> None:
    whole = join([assessment(), assessment(first=5)])
    assert len(whole) == 10 and whole.accuracy("A") == 0.4
    assert whole.index.tolist() == list(range(10))
    assert whole.clean_predictions is not None and len(whole.clean_predictions) == 10
    assert (
        whole.attacks[0].predictions is not None
        and whole.attacks[0].predictions.tolist() == [0, 1, 0, 1, 2] * 2
    )
    assert whole.attacks[0].seconds == 1.5


def test_any_attacks_on_any_parts_in_any_order_give_the_same() -> None:
    found = assessment()
    pieces = [
        only(found, 0, range(2)),
        only(found, 0, range(2, 5)),
        only(found, 1, range(5)),
    ]
    for order in itertools.permutations(pieces):
        whole = join(order)
        attacks = tuple(sorted(whole.attacks, key=lambda one: one.label))
        sorted_rows = replace(whole, attacks=attacks).select(whole.index.argsort())
        assert sorted_rows.as_dict() == found.as_dict()


def test_one_part_may_hold_more_attacks_than_another() -> None:
    found = assessment()
    both = found.select(torch.arange(2))
    whole = join([both, only(found, 0, range(2, 5)), only(found, 1, range(2, 5))])
    assert whole.as_dict() == found.as_dict()


def test_one_is_itself_and_clean_images_alone_join_too() -> None:
    found = assessment()
    assert join([found]).as_dict() == found.as_dict()
    bare = replace(found, attacks=())
    assert join([bare]).as_dict() == bare.as_dict()
    assert join([bare, found]).as_dict() == join([found, bare]).as_dict() == found.as_dict()
    halves = bare.select(torch.arange(2)), bare.select(torch.arange(2, 5))
    assert join(halves).as_dict() == bare.as_dict()
    assert join([*halves, found]).as_dict() == found.as_dict()


def test_processes_without_examples_add_nothing() -> None:
    found = assessment()
    none = found.select(torch.arange(0))
    assert join([none, found, none]).as_dict() == found.as_dict()
    assert len(join([none, none])) == 0


def test_the_rest_is_kept() -> None:
    found = assessment()
    one = replace(found, attacks=found.attacks[:1], notes=(A, B), classes=(), environment={"first": 1})
    other = replace(found, attacks=found.attacks[1:], notes=(B, C), environment={"second": 2})
    whole = join([one, other])
    assert whole.notes == (A, B, C)
    assert whole.classes == found.classes
    assert whole.environment == {"first": 1}


def test_the_gravest_diagnosis_is_kept() -> None:
    parts = assessment(), assessment(5), assessment(10)
    sound, suspicious, thorough = (
        diagnosis("sound"),
        diagnosis("suspicious"),
        diagnosis("suspicious", is_whole=True),
    )
    whole = join(
        [replace(one, diagnosis=found) for one, found in zip(parts, (sound, suspicious, None), strict=True)]
    )
    assert whole.diagnosis == suspicious
    whole = join(
        [
            replace(one, diagnosis=found)
            for one, found in zip(parts, (suspicious, thorough, sound), strict=True)
        ]
    )
    assert whole.diagnosis == thorough
    assert join(parts).diagnosis is None


def test_what_an_old_part_does_not_tell_is_not_known_of_the_whole() -> None:
    found = assessment()
    first = only(found, 0, range(2))
    old = only(found, 0, range(2, 5))
    old = replace(old, clean_predictions=None, attacks=(replace(old.attacks[0], predictions=None),))
    whole = join([first, old])
    assert whole.clean_predictions is None and whole.attacks[0].predictions is None
    # Another attack on the same images knows what was said about the clean ones.
    assert join([whole, only(found, 1, range(5))]).clean_predictions is not None


def test_what_does_not_belong_together_is_refused() -> None:
    found = assessment()
    a, b = only(found, 0, range(5)), only(found, 1, range(5))
    with pytest.raises(UserError, match="got no assessments to join"):
        join([])
    others: dict[str, Any] = {"model": "m", "data": "d", "threat": L2(1), "seed": 7}
    for name, value in others.items():
        with pytest.raises(UserError, match=f"assessments differ in {name}: got "):
            join([a, replace(b, **{name: value})])
    with pytest.raises(UserError, match="differ in the names of the classes"):
        join([a, replace(b, classes=("x", "y", "z"))])
    with pytest.raises(UserError, match="attack 'A': got example 3 more than once"):
        join([assessment(), assessment(first=3)])
    with pytest.raises(UserError, match="attack 'A': got example 0 more than once"):
        join([found, a])
    with pytest.raises(UserError, match="'A' was run on 5 examples and attack 'B' on 3, expected the same"):
        join([a, only(found, 1, range(3))])
    changed = replace(assessment(5).attacks[0], parameters={"steps": 4})
    with pytest.raises(UserError, match=r"attack 'A' differs in parameters: got .*3.* and .*4"):
        join([a, replace(assessment(5), attacks=(changed,))])
    with pytest.raises(UserError, match="differ in which clean images"):
        join([a, replace(b, correct=~b.correct)])
    with pytest.raises(UserError, match="differ in the labels of the same examples"):
        join([a, replace(b, labels=b.labels + 1)])
