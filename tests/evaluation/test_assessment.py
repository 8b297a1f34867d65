from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from soar.errors import UserError
from soar.evaluation import Assessment, AttackResult
from soar.evaluation.assessment import Note
from soar.evaluation.compare import join
from soar.evaluation.diagnosis import CheckResult, Diagnosis, Verdict
from soar.threat import L2, Linf
from soar.weights import Weights

RESULTS = Path(__file__).parents[2] / "docs" / "results"
LABELS = torch.tensor([0, 1, 2, 0, 1])
PREDICTED = torch.tensor([0, 1, 2, 0, 2])


def flags(text: str) -> Tensor:
    return torch.tensor([letter == "1" for letter in text], dtype=torch.bool)


def result(label: str, robust: str, said: list[int]) -> AttackResult:
    count = len(robust)
    return AttackResult(
        label=label,
        name="PGD",
        parameters={"steps": 3, "step_size": None, "random_start": True},
        robust=flags(robust),
        forward=torch.full((count,), 4),
        backward=torch.full((count,), 3),
        seconds=1.5,
        predictions=torch.tensor(said),
    )


def assessment(first: int = 0) -> Assessment:
    return Assessment(
        model="net",
        data="things",
        threat=Linf("8/255"),
        seed=0,
        index=torch.arange(first, first + 5),
        labels=LABELS,
        correct=flags("11110"),
        attacks=(result("A", "11000", [0, 1, 0, 1, 2]), result("B", "10100", [0, 2, 2, 2, 2])),
        environment={"torch": "x"},
        clean_predictions=PREDICTED,
        classes=("bag", "coat", "shoe"),
    )


def diagnosis(finding: Verdict = "masked", *, is_whole: bool = False) -> Diagnosis:
    item = CheckResult(
        check="gradients",
        title="Slopes",
        finding=finding,
        sentence="None.",
        rule="any",
        numbers={"zeros": 0.5, "count": 3, "note": "x", "none": None},
        excess=2.5,
        advice=("scaling",),
    )
    return Diagnosis(
        model="net", data="things", threat=Linf("8/255"), examples=5, checks=(item,), is_complete=is_whole
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


def test_examples_end_where_the_first_success_took_them() -> None:
    found = assessment()
    ends = {name: said.tolist() for name in found.names if (said := found.predictions(name)) is not None}
    assert ends["clean"] == PREDICTED.tolist()
    assert ends["B"] == [0, 2, 2, 2, 2]
    # The first stays; the second falls to B alone, third and fourth to A first, the last was never right.
    assert ends["worst case"] == [0, 2, 0, 1, 2]
    turned = replace(found, attacks=found.attacks[::-1]).predictions("worst case")
    assert turned is not None and turned.tolist() == [0, 2, 0, 2, 2]
    old = replace(found.attacks[0], predictions=None)
    assert replace(found, attacks=(old, found.attacks[1])).predictions("worst case") is None


def test_the_verdict_is_that_of_the_diagnosis() -> None:
    assert assessment().verdict is None
    assert replace(assessment(), diagnosis=diagnosis("suspicious")).verdict == "suspicious"


def test_saving_and_loading_keeps_everything(tmp_path: Path) -> None:
    weights = Weights(Path("runs/a/model.safetensors"), 64 * "a", 12)
    found = replace(
        assessment(),
        diagnosis=diagnosis(),
        notes=(Note("batch", "odd\n"),),
        model="\udce4 ü [b]",
        weights=weights,
    )
    path = tmp_path / "deep" / "assessment.json"
    found.save(path)
    back = Assessment.load(path)
    assert back.as_dict() == found.as_dict()
    assert back.weights == weights and back.notes == found.notes
    assert back.threat == Linf("8/255") and back.diagnosis == found.diagnosis
    assert back.attacks[0].predictions is not None and back.attacks[0].predictions.tolist() == [0, 1, 0, 1, 2]
    assert list(path.parent.iterdir()) == [path]
    stored = json.loads(path.read_text())
    assert stored["format"] == 5 and stored["kind"] == "assessment"
    assert stored["threat"] == {"norm": "linf", "eps": "8/255"}
    assert stored["accuracy"]["worst case"]["share"] == 0.2
    assert stored["notes"] == [{"kind": "batch", "message": "odd\n"}]


def test_what_is_not_known_stays_unknown(tmp_path: Path) -> None:
    bare = [replace(one, predictions=None) for one in assessment().attacks]
    found = replace(assessment(), clean_predictions=None, classes=(), attacks=tuple(bare))
    found.save(tmp_path / "a.json")
    back = Assessment.load(tmp_path / "a.json")
    assert (
        back.predictions("worst case") is None
        and back.predictions("clean") is None
        and back.predictions("A") is None
    )
    assert back.as_dict() == found.as_dict()


def test_no_examples_and_no_attacks_come_back_too(tmp_path: Path) -> None:
    for found in (replace(assessment(), attacks=()), assessment().select(torch.arange(0))):
        found.save(tmp_path / "a.json")
        assert Assessment.load(tmp_path / "a.json").as_dict() == found.as_dict()


def test_lists_of_numbers_stay_on_one_line(tmp_path: Path) -> None:
    assessment().save(tmp_path / "a.json")
    lines = (tmp_path / "a.json").read_text().splitlines()
    assert ' "index": [0, 1, 2, 3, 4],' in lines
    assert '   "predictions": [0, 1, 0, 1, 2],' in lines


@pytest.mark.parametrize(
    "name", ["demo-soar/assessment.json", "cifar10-small/standard.json", "cifar10-small/adversarial.json"]
)
def test_committed_files_load(name: str) -> None:
    found = Assessment.load(RESULTS / name)
    stored = json.loads((RESULTS / name).read_text())
    assert len(found) == 1000
    for label in found.names:
        assert found.accuracy(label) == stored["accuracy"][label]["share"]


def test_some_examples_can_be_picked() -> None:
    picked = assessment().select(torch.tensor([4, 1]))
    assert picked.index.tolist() == [4, 1] and picked.labels.tolist() == [1, 1]
    assert picked.survivors("A").tolist() == [False, True]
    ends = picked.predictions("worst case")
    assert ends is not None and ends.tolist() == [2, 2]


def test_attacks_that_were_run_apart_are_joined() -> None:
    found = assessment()
    one, other = replace(found, attacks=found.attacks[:1]), replace(found, attacks=found.attacks[1:])
    assert join((one, other)).as_dict() == found.as_dict()
    with pytest.raises(UserError, match="assessments differ in threat: got linf 8/255 and l2 1"):
        join((found, replace(found, threat=L2(1))))


def test_unknown_attacks_get_a_suggestion() -> None:
    for question in (assessment().accuracy, assessment().predictions):
        with pytest.raises(UserError, match=r"unknown attack 'worst' .* 'worst case'"):
            question("worst")
