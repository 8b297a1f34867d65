from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from soar.evaluation.checks.judgment import not_made
from soar.evaluation.diagnosis import SEVERITY, Diagnosis, Evidence, Verdict, strongest_first
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
        ((), "inconclusive"),
        (("sound", "inconclusive"), "inconclusive"),
        (("inconclusive", "inconclusive"), "inconclusive"),
        (("inconclusive", "suspicious", "sound"), "suspicious"),
        (("inconclusive", "masked"), "masked"),
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
    assert found.against == tuple(one for one in ordered if one.finding in ("suspicious", "masked"))
    assert (found.verdict == "sound") == (bool(evidence) and all(one.finding == "sound" for one in evidence))
    unmade = sum(not one.was_made for one in evidence)
    if found.against:
        expected = found.against[0].sentence
    elif unmade == len(evidence):
        expected = "No check could be made"
    elif unmade:
        expected = f"{unmade} of {len(evidence)} checks could not be made, so it cannot be called sound."
    else:
        expected = f"None of {len(evidence)} checks speaks against it."
    assert found.summary.startswith(expected)
    assert len(set(found.advice)) == len(found.advice) and "" not in found.advice


def test_a_diagnosis_comes_back_as_it_was(tmp_path: Path) -> None:
    first = item("masked", 2.5, "soar evaluate RUN --attacks standard")
    found = Diagnosis(
        model="m", data="d", threat=L2("1.74"), examples=7, seed=3, evidence=(first,), is_whole=False
    )
    found.save(tmp_path / "diagnosis.json")
    assert Diagnosis.load(tmp_path / "diagnosis.json") == found


def test_checks_that_could_not_be_made_do_not_speak_for_a_model() -> None:
    unmade = [not_made(check, "t", "r", "no image is right") for check in ("losses", "budgets")]
    nothing = diagnosis(*unmade)
    assert nothing.summary == "No check could be made, so nothing is known."
    assert nothing.verdict == "inconclusive"
    some = diagnosis(*unmade, item("sound"))
    assert some.verdict == "inconclusive"
    assert some.summary == "2 of 3 checks could not be made, so it cannot be called sound."
    assert [one.was_made for one in some.evidence] == [False, False, True]
