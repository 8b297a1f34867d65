from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from soar.evaluation.diagnosis import SEVERITY, Diagnosis, Evidence, Verdict, strongest_first
from soar.evaluation.evidence.judgement import not_made
from soar.threat import L2, Linf


def item(finding: Verdict, excess: float = 0.0, advice: str = "") -> Evidence:
    return Evidence(
        check="made", title="Made", finding=finding, sentence="So.", rule="none", excess=excess, advice=advice
    )


def diagnosis(*evidence: Evidence) -> Diagnosis:
    return Diagnosis(model="m", data="d", threat=Linf("8/255"), examples=3, evidence=evidence)


@pytest.mark.parametrize(
    ("findings", "verdict"),
    [
        ((), "sound"),
        (("sound", "sound"), "sound"),
        (("sound", "suspicious"), "suspicious"),
        (("suspicious", "masked", "sound"), "masked"),
    ],
)
def test_the_gravest_finding_is_the_verdict(findings: tuple[Verdict, ...], verdict: str) -> None:
    assert diagnosis(*map(item, findings)).verdict == verdict


items = st.builds(item, st.sampled_from(list(SEVERITY)), st.floats(0, 100), st.sampled_from(["", "a", "b"]))


@given(st.lists(items, max_size=8))
def test_evidence_is_ordered_by_gravity_then_by_how_far_it_goes(evidence: list[Evidence]) -> None:
    ordered = strongest_first(evidence)
    ranks = [(SEVERITY[one.finding], one.excess) for one in ordered]
    assert ranks == sorted(ranks, reverse=True)
    found = diagnosis(*evidence)
    assert found.evidence == ordered
    assert found.against == tuple(one for one in ordered if one.finding != "sound")
    none = f"None of {len(evidence)} checks speaks against it." if evidence else "Nothing could be checked"
    assert found.summary.startswith(found.against[0].sentence if found.against else none)
    assert len(set(found.advice)) == len(found.advice) and "" not in found.advice


def test_a_diagnosis_comes_back_as_it_was(tmp_path: Path) -> None:
    first = item("masked", 2.5, "soar evaluate RUN --attacks standard")
    found = Diagnosis(
        model="m", data="d", threat=L2("1.74"), examples=7, seed=3, evidence=(first,), is_whole=False
    )
    found.save(tmp_path / "diagnosis.json")
    assert Diagnosis.load(tmp_path / "diagnosis.json") == found


def test_checks_that_could_not_be_made_do_not_speak_for_a_model() -> None:
    made = [not_made(check, "t", "r", "no image is right") for check in ("losses", "budgets")]
    whole = {"model": "m", "data": "d", "threat": Linf(0.1), "examples": 3}
    nothing = Diagnosis(**whole, evidence=tuple(made))  # type: ignore[arg-type]
    assert nothing.summary == "Nothing could be checked, so nothing is known."
    one = Evidence(check="taylor", title="t", finding="sound", sentence="It fits.", rule="r")
    some = Diagnosis(**whole, evidence=(*made, one))  # type: ignore[arg-type]
    assert some.summary == "None of 1 checks speaks against it (1 of 3 could be made)."
