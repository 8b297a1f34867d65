from __future__ import annotations

import json
import re
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
import torch

from soar.evaluation import AttackResult, Certificate, CheckResult, Note
from soar.evaluation.shapes import SHAPES, schema, schema_file
from soar.threat import Linf
from tests.evaluation.test_assessment import assessment, diagnosis
from tests.evaluation.test_corruptions import corruptions

DOCS = Path(__file__).parents[2] / "docs" / "reference" / "formats.md"
TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}
# What says nothing about values, and what `problems` understands.
COMMENTS = {"$schema", "$defs", "title", "description", "default"}
UNDERSTOOD = {"$ref", "anyOf", "enum", "type", "properties", "required", "additionalProperties", "items"}
UNDERSTOOD |= {"minimum", "maximum", "minItems", "maxItems", "maxLength", "pattern"}


def shipped(kind: str) -> dict[str, Any]:
    stored: dict[str, Any] = json.loads(schema_file(kind).read_text())
    return stored


def problems(value: Any, rules: dict[str, Any], names: dict[str, Any], at: str = "$") -> list[str]:
    """Say where a value breaks a JSON Schema, as far as our schemas use that language."""
    assert rules.keys() <= COMMENTS | UNDERSTOOD, rules.keys()
    if "$ref" in rules:
        return problems(value, names[rules["$ref"].removeprefix("#/$defs/")], names, at)
    if "anyOf" in rules:
        tries = [problems(value, one, names, at) for one in rules["anyOf"]]
        return min(tries, key=len)
    if "enum" in rules:
        return [] if any(value == one and type(value) is type(one) for one in rules["enum"]) else [at]
    if "type" in rules:
        # In Python, unlike in JSON, true is a number.
        is_other = isinstance(value, bool) != (rules["type"] == "boolean")
        if is_other or not isinstance(value, TYPES[rules["type"]]):
            return [at]
    return _limits(value, rules, at) + _inside(value, rules, names, at)


def _limits(value: Any, rules: dict[str, Any], at: str) -> list[str]:
    broken = [
        "minimum" in rules and value < rules["minimum"],
        "maximum" in rules and value > rules["maximum"],
        "minItems" in rules and len(value) < rules["minItems"],
        "maxItems" in rules and len(value) > rules["maxItems"],
        "maxLength" in rules and len(value) > rules["maxLength"],
        "pattern" in rules and not re.search(rules["pattern"], value),
    ]
    return [at] if any(broken) else []


def _inside(value: Any, rules: dict[str, Any], names: dict[str, Any], at: str) -> list[str]:
    if isinstance(value, list):
        items = rules.get("items", {})
        return [bad for i, one in enumerate(value) for bad in problems(one, items, names, f"{at}[{i}]")]
    if not isinstance(value, dict):
        return []
    known, others = rules.get("properties", {}), rules.get("additionalProperties", True)
    found = [f"{at}.{name}" for name in rules.get("required", ()) if name not in value]
    for name, one in value.items():
        if name in known or isinstance(others, dict):
            found += problems(one, known.get(name, others), names, f"{at}.{name}")
        elif not others:
            found.append(f"{at}.{name}")
    return found


def certificate() -> Certificate:
    found = assessment()
    return Certificate(
        model="net",
        data="things",
        threat=Linf("2/255"),
        seed=0,
        method="crown",
        options={"refine": False, "steps": 3, "precision": "float32"},
        index=found.index,
        labels=found.labels,
        correct=found.correct,
        certified=torch.tensor([True, False, True, False, False]),
        seconds=1.5,
        cpu_seconds=1.25,
        environment={"torch": "x"},
    )


def examples() -> list[dict[str, Any]]:
    plain = assessment()
    old = replace(
        plain, clean_predictions=None, attacks=tuple(replace(one, predictions=None) for one in plain.attacks)
    )
    noted = replace(plain, diagnosis=diagnosis(), notes=(Note("modes", "a"),), corruptions=corruptions())
    return [one.as_dict() for one in (plain, old, noted)]


@pytest.mark.parametrize("kind", SHAPES)
def test_the_shipped_schema_is_that_of_the_shapes(kind: str) -> None:
    remake = "write_json(schema(kind), schema_file(kind)) of soar.evaluation makes it again"
    assert shipped(kind) == schema(kind), remake


@pytest.mark.parametrize("stored", examples(), ids=["plain", "bare", "diagnosed"])
def test_saved_assessments_fit_their_schema(stored: dict[str, Any]) -> None:
    rules = shipped("assessment")
    assert problems(stored, rules, rules["$defs"]) == []


def test_saved_diagnoses_fit_their_schema() -> None:
    rules = shipped("diagnosis")
    assert problems(diagnosis().as_dict(), rules, rules["$defs"]) == []


def test_saved_certificates_fit_their_schema() -> None:
    rules, stored = shipped("certificate"), certificate().as_dict()
    assert problems(stored, rules, rules["$defs"]) == []
    assert set(rules["$defs"]["CertificateShape"]["properties"]) == set(stored)
    broken = stored | {"method": "guess", "certified": "2", "cpu_seconds": -1}
    assert sorted(problems(broken, rules, rules["$defs"])) == ["$.certified", "$.cpu_seconds", "$.method"]


@pytest.mark.parametrize(
    "change, place",
    [
        ({"seed": True}, "$.seed"),
        ({"seed": 1.5}, "$.seed"),
        ({"index": [0, -1]}, "$.index[1]"),
        ({"correct": "012"}, "$.correct"),
        ({"kind": "diagnosis"}, "$.kind"),
        ({"more": 1}, "$.more"),
        ({"threat": {"norm": "linf"}}, "$.threat.eps"),
        ({"accuracy": {"clean": {"share": 2, "interval": [0, 1]}}}, "$.accuracy.clean.share"),
        ({"accuracy": {"clean": {"share": 1, "interval": [0]}}}, "$.accuracy.clean.interval"),
    ],
)
def test_the_schema_refuses_what_the_reader_refuses(change: dict[str, Any], place: str) -> None:
    rules = shipped("assessment")
    assert problems(examples()[0] | change, rules, rules["$defs"]) == [place]


def test_shapes_have_the_fields_of_what_they_stand_for() -> None:
    names = shipped("assessment")["$defs"]
    assert list(names["CheckShape"]["properties"]) == [one.name for one in fields(CheckResult)]
    assert set(names["AttackShape"]["properties"]) == {one.name for one in fields(AttackResult)}
    assert set(names["AssessmentShape"]["properties"]) == set(assessment().as_dict())
    assert set(names["CorruptionsShape"]["properties"]) == set(corruptions().as_dict())
    assert set(names["DiagnosisShape"]["properties"]) == set(diagnosis().as_dict())


def test_the_documentation_names_every_field_and_no_other() -> None:
    sections = dict(re.findall(r"^##+ (\w+)\n(.*?)(?=^##|\Z)", DOCS.read_text(), re.MULTILINE | re.DOTALL))
    known = {**shipped("assessment")["$defs"], **shipped("certificate")["$defs"]}
    for name, rules in known.items():
        documented = re.findall(r"^\| `(\w+)` \|", sections[name.removesuffix("Shape")], re.MULTILINE)
        assert sorted(documented) == sorted(rules["properties"]), name


def test_the_documentation_says_which_versions_there_are() -> None:
    versions = set(re.findall(r"^\| (\w+) \| (\d+) \|$", DOCS.read_text(), re.MULTILINE))
    assert versions == {("assessment", "5"), ("certificate", "1"), ("diagnosis", "4")}
    for kind in SHAPES:
        known = schema(kind)["$defs"][f"{kind.title()}Shape"]["properties"]["format"]["enum"]
        assert (kind, str(max(known))) in versions
