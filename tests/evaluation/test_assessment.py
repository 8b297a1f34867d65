from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from soar.errors import UserError
from soar.evaluation import Assessment, AttackResult
from soar.threat import L2, Linf


def flags(text: str) -> Tensor:
    return torch.tensor([letter == "1" for letter in text])


def result(label: str, robust: str, forward: int = 4, backward: int = 3) -> AttackResult:
    count = len(robust)
    return AttackResult(
        label=label,
        name="PGD",
        parameters={"steps": 3},
        robust=flags(robust),
        forward=torch.full((count,), forward),
        backward=torch.full((count,), backward),
        seconds=1.5,
    )


def assessment(first: int = 0) -> Assessment:
    return Assessment(
        model="net",
        data="things",
        threat=Linf("8/255"),
        seed=0,
        index=torch.arange(first, first + 5),
        labels=torch.tensor([0, 1, 2, 0, 1]),
        correct=flags("11110"),
        attacks=(result("A", "11000"), result("B", "10100")),
        environment={"torch": "x"},
    )


def test_accuracies_count_all_examples_and_the_worst_case_is_the_intersection() -> None:
    found = assessment()
    assert found.names == ["clean", "A", "B", "worst case"]
    assert [found.accuracy(name) for name in found.names] == [0.8, 0.4, 0.4, 0.2]
    assert found.worst_case == 0.2
    low, high = found.interval("worst case")
    assert low == pytest.approx(0.0362, abs=1e-4) and high == pytest.approx(0.6245, abs=1e-4)


def test_passes_are_means_over_all_examples() -> None:
    found = assessment()
    assert found.passes("clean") == (1.0, 0.0)
    assert found.passes("A") == (4.0, 3.0)
    assert found.passes("worst case") == (9.0, 6.0)


def test_saving_and_loading_keeps_everything(tmp_path: Path) -> None:
    found = assessment()
    found.save(tmp_path / "deep" / "assessment.json")
    back = Assessment.load(tmp_path / "deep" / "assessment.json")
    assert back._as_dict() == found._as_dict()
    assert back.threat == Linf("8/255")
    assert list((tmp_path / "deep").iterdir()) == [tmp_path / "deep" / "assessment.json"]
    stored = json.loads((tmp_path / "deep" / "assessment.json").read_text())
    assert stored["threat"] == {"norm": "linf", "eps": "8/255"}
    assert stored["accuracy"]["worst case"]["share"] == 0.2


def test_merging_attacks_on_the_same_examples() -> None:
    found = assessment()
    one, other = replace(found, attacks=found.attacks[:1]), replace(found, attacks=found.attacks[1:])
    assert one.merge(other)._as_dict() == found._as_dict()
    with pytest.raises(UserError, match="both assessments hold the attack 'A'"):
        found.merge(one)


def test_merging_the_same_attacks_on_other_examples() -> None:
    whole = assessment().merge(assessment(first=5))
    assert len(whole) == 10 and whole.accuracy("A") == 0.4
    assert whole.index.tolist() == list(range(10))
    with pytest.raises(UserError, match="share some examples"):
        assessment().merge(assessment(first=3))


def test_merging_what_does_not_belong_together_is_refused() -> None:
    with pytest.raises(UserError, match="assessments differ in threat: got linf 8/255 and l2 1"):
        assessment().merge(replace(assessment(), threat=L2(1)))
    with pytest.raises(UserError, match="differ in which clean images"):
        assessment().merge(replace(assessment(), correct=flags("11111"), attacks=()))


def test_unknown_attacks_get_a_suggestion() -> None:
    with pytest.raises(UserError, match=r"unknown attack 'worst' .* 'worst case'"):
        assessment().accuracy("worst")


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"format": 1}', "not json"])
def test_other_files_are_refused_in_one_line(tmp_path: Path, text: str) -> None:
    file = tmp_path / "a.json"
    file.write_text(text)
    with pytest.raises(UserError, match=r"a\.json: not an assessment") as caught:
        Assessment.load(file)
    assert "\n" not in str(caught.value)


def test_newer_formats_and_missing_files_are_named(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"format": 99}')
    with pytest.raises(UserError, match="got format 99, expected 1"):
        Assessment.load(tmp_path / "a.json")
    with pytest.raises(UserError, match=r"none\.json: cannot be read"):
        Assessment.load(tmp_path / "none.json")
