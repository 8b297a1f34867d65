from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from soar.errors import UserError
from soar.evaluation import Assessment, Bracket, Certificate, wilson
from soar.evaluation.rendering import as_text
from soar.evaluation.table import certificate_table, curve, table
from soar.threat import L2, Linf
from soar.weights import Weights
from tests.evaluation.test_assessment import assessment
from tests.evaluation.test_shapes import certificate


def test_rates_count_all_examples() -> None:
    found = certificate()
    assert (found.accuracy, found.clean_accuracy, len(found)) == (0.4, 0.8, 5)
    assert found.interval == wilson(2, 5)
    assert repr(found) == "<Certificate: net on 5 images of things, linf 2/255, crown: 40.0% certified>"


@pytest.mark.parametrize("weights", [None, Weights(Path("w.pt"), 64 * "a", None)])
def test_a_saved_certificate_is_read_back_whole(tmp_path: Path, weights: Weights | None) -> None:
    found = replace(certificate(), weights=weights, threat=L2("0.25"), method="smoothing")
    found.save(tmp_path / "certificate.json")
    again = Certificate.load(tmp_path / "certificate.json")
    assert again.as_dict() == found.as_dict() and again.weights == weights and again.threat == L2("0.25")
    for name in ("index", "labels", "correct", "certified"):
        assert torch.equal(getattr(again, name), getattr(found, name))
    with pytest.raises(UserError, match="got a certificate, expected an assessment"):
        Assessment.load(tmp_path / "certificate.json")


@pytest.mark.parametrize(
    "change, text",
    [
        ({"format": 2}, "got version 2 of the certificate format, expected 1"),
        ({"certified": "1010"}, "certified has 4 entries for 5 examples"),
        ({"index": [0, 1, 2, 3, 3]}, "index names an example twice"),
        ({"certified": "10001"}, "certified marks an example that is not correctly classified"),
        ({"certified": "10000"}, "accuracy is 0.4 but the examples give 0.2"),
        ({"method": "guess"}, "damaged certificate"),
        ({"certified": "1?100"}, "damaged certificate"),
        ({"more": 1}, "damaged certificate"),
    ],
)
def test_damage_is_told_in_one_line(tmp_path: Path, change: dict[str, Any], text: str) -> None:
    path = tmp_path / "certificate.json"
    path.write_text(json.dumps(certificate().as_dict() | change))
    with pytest.raises(UserError, match=text) as caught:
        Certificate.load(path)
    assert "\n" not in str(caught.value)


def test_the_table_shows_both_sides() -> None:
    small = certificate()
    large = replace(small, threat=Linf("8/255"), certified=torch.zeros(5, dtype=torch.bool))
    both = Bracket(small.threat, "crown", 0.4, 0.6, 0.8, 5)
    shown = as_text(certificate_table([large, small], [both])).splitlines()
    assert shown[0] == "net on 5 images of things, crown"
    assert shown[2].split() == [
        "threat",
        "certified",
        "95%",
        "interval",
        "attacked",
        "seconds",
        "CPU",
        "seconds",
    ]
    assert shown[4].split()[:4] == ["linf", "2/255", "40.0%", "11.8"] and " 60.0% " in shown[4]
    assert shown[5].split()[:3] == ["linf", "8/255", "0.0%"] and "60.0%" not in shown[5]
    assert "no attack leaves less" in str(small) and "attacked" not in str(small)
    partly = as_text(certificate_table([small], [replace(both, examples=3)]))
    assert "60.0% of 3" in partly
    assert "the smoothed model, not the model itself" in str(replace(small, method="smoothing"))
    assert "<pre" in small._repr_html_()


def test_evaluations_show_what_is_certified() -> None:
    found = assessment()
    proved = replace(certificate(), threat=found.threat)
    shown = as_text(table(found, proved))
    assert "certified, crown" in shown and "certified: on 5 images" in shown
    assert "certified" not in as_text(table(found))
    lines = as_text(curve([found, replace(found, threat=Linf("1/255"))], [proved])).splitlines()
    assert lines[2].split()[-1] == "certified" and lines[-1].split()[-1] == "40.0%"
    assert not lines[-2].endswith("%")
