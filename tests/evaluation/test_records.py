from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from soar.evaluation import Assessment, Certificate, certify, evaluate
from soar.evaluation.diagnosis import CheckResult, Diagnosis
from soar.evaluation.records import find_assessment, find_assessments, find_certificates, find_diagnosis
from soar.threat import L2, Linf
from soar.weights import Weights
from tests.report.linear import linear_target

DATA, THREAT = "clothes (test)", Linf("0.05")
WEIGHTS = Weights(Path("model.safetensors"), 64 * "a", 3)
OTHERS = replace(WEIGHTS, sha256=64 * "b")
TARGET = replace(linear_target(THREAT), data_name=DATA, weights=WEIGHTS)


@pytest.fixture(scope="module")
def made() -> Assessment:
    found = evaluate(TARGET.model, TARGET.data, THREAT, ["fgsm", "pgd"], data_name=DATA, check=False)
    return replace(found, weights=WEIGHTS)


def diagnosis(model: str, *, is_whole: bool = True) -> Diagnosis:
    evidence = CheckResult(check="losses", title="", finding="sound", sentence="", rule="")
    made = Diagnosis(
        model=model, data=DATA, threat=THREAT, examples=9, checks=(evidence,), is_complete=is_whole
    )
    return replace(made, weights=WEIGHTS)


def save(found: Assessment | Certificate | Diagnosis, path: Path, *, time: int = 0) -> None:
    found.save(path)
    os.utime(path, (time, time))


def chosen(folder: Path, lines: list[str] | None = None) -> str | None:
    say = ([] if lines is None else lines).append
    found = find_assessment(folder, TARGET, say)
    return None if found is None else found.model


def test_most_examples_then_most_attacks_then_the_newest(tmp_path: Path, made: Assessment) -> None:
    half = made.select(torch.arange(10))
    few = replace(made, attacks=made.attacks[:1])
    save(replace(half, model="half"), tmp_path / "assessment.json", time=9)
    assert chosen(tmp_path) == "half"
    save(replace(few, model="few"), tmp_path / "assessment-2.json", time=8)
    assert chosen(tmp_path) == "few"
    save(replace(made, model="older"), tmp_path / "assessment-test.json", time=5)
    assert chosen(tmp_path) == "older"
    save(replace(made, model="newer"), tmp_path / "assessment-test-2.json", time=6)
    lines: list[str] = []
    assert chosen(tmp_path, lines) == "newer"
    assert lines == [f"{tmp_path / 'assessment-test-2.json'}: used, 20 images, 2 attacks"]


def test_what_does_not_belong_is_skipped_with_one_line_each(tmp_path: Path, made: Assessment) -> None:
    save(replace(made, data="clothes (validation)"), tmp_path / "assessment-a.json")
    save(replace(made, threat=Linf("0.1")), tmp_path / "assessment-b.json")
    save(replace(made, weights=None), tmp_path / "assessment-c.json")
    (tmp_path / "assessment-d.json").write_text('{"format"')
    (tmp_path / "assessment-e.json").write_text("\x00")
    lines: list[str] = []
    assert chosen(tmp_path, lines) is None
    assert len(lines) == 5 and all("skipped" in line and "\n" not in line for line in lines)
    assert "clothes (validation), linf 0.05; the run's is clothes (test), linf 0.05" in lines[0]
    assert "linf 0.1" in lines[1] and "made of other weights" in lines[2]
    assert "assessment-d.json" in lines[3] and "assessment-e.json" in lines[4]


def test_records_are_known_by_their_weights(tmp_path: Path, made: Assessment) -> None:
    save(made, tmp_path / "assessment.json")
    save(replace(made, model="others", weights=OTHERS), tmp_path / "assessment-2.json", time=9)
    save(diagnosis("ours"), tmp_path / "diagnosis.json")
    save(replace(diagnosis("others"), weights=OTHERS), tmp_path / "diagnosis-2.json", time=9)
    lines: list[str] = []
    assert chosen(tmp_path, lines) == "model"
    found = find_diagnosis(tmp_path, TARGET, lines.append)
    assert found is not None and found.model == "ours"
    assert sum("skipped, it was made of other weights" in line for line in lines) == 2


def test_a_whole_diagnosis_before_a_newer_first_look(tmp_path: Path) -> None:
    lines: list[str] = []

    def found() -> str | None:
        one = find_diagnosis(tmp_path, TARGET, lines.append)
        return None if one is None else one.model

    assert found() is None
    save(diagnosis("look", is_whole=False), tmp_path / "diagnosis-3.json", time=9)
    assert found() == "look"
    save(diagnosis("old"), tmp_path / "diagnosis.json", time=1)
    save(diagnosis("new"), tmp_path / "diagnosis-2.json", time=2)
    assert found() == "new" and lines == []
    (tmp_path / "diagnosis-4.json").write_text("{}")
    assert found() == "new" and len(lines) == 1


def test_one_certificate_for_each_radius_the_smallest_first(tmp_path: Path) -> None:
    large, small = (
        replace(one, weights=WEIGHTS)
        for one in certify(TARGET.model, TARGET.data, [THREAT, Linf("0.01")], data_name=DATA)
    )
    few = certify(TARGET.model, TARGET.subset(slice(6)).data, THREAT, data_name=DATA)
    weaker = replace(large, certified=torch.zeros_like(large.certified), model="weaker")
    for number, one in enumerate([replace(few, weights=WEIGHTS, model="few"), weaker, large, small]):
        save(one, tmp_path / f"certificate-{number}.json", time=9 - number)
    others = [
        replace(large, weights=OTHERS),
        replace(large, data="clothes (validation)"),
        replace(large, threat=L2("0.05")),
        replace(large, method="smoothing"),
    ]
    for number, one in enumerate(others):
        save(one, tmp_path / f"certificate-other-{number}.json", time=99)
    lines: list[str] = []
    found = find_certificates(tmp_path, TARGET, lines.append)
    assert [one.as_dict() for one in found] == [small.as_dict(), large.as_dict()]
    assert len(lines) == 4 and all("skipped" in line for line in lines)
    assert "it is about the smoothed model" in lines[3]


def test_assessments_of_all_radii_are_found(tmp_path: Path, made: Assessment) -> None:
    save(made, tmp_path / "assessment.json")
    save(replace(made, threat=Linf("0.01")), tmp_path / "assessment-2.json")
    save(replace(made, threat=L2("0.01")), tmp_path / "assessment-3.json")
    save(replace(made, weights=OTHERS), tmp_path / "assessment-4.json")
    (tmp_path / "assessment-5.json").write_text("{}")
    assert {str(one.threat) for one in find_assessments(tmp_path, TARGET)} == {"linf 0.01", "linf 0.05"}
    assert len(find_assessments(tmp_path, TARGET)) == 2
