from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from soar.evaluation.diagnosis import SEVERITY, Check, CheckResult, Diagnosis, Thresholds, Verdict
from soar.evaluation.interval import counted, paired, share_of
from soar.threat import L2, Linf


def item(finding: Verdict, excess: float = 0.0, advice: str = "") -> CheckResult:
    return CheckResult(
        check="made", title="Made", finding=finding, sentence="So.", rule="none", excess=excess, advice=advice
    )


def diagnosis(*results: CheckResult) -> Diagnosis:
    return Diagnosis(model="m", data="d", threat=Linf("8/255"), examples=3, checks=results)


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
def test_checks_are_ordered_by_gravity_then_by_how_far_they_go(results: list[CheckResult]) -> None:
    found = diagnosis(*results)
    ordered = found.checks
    assert sorted(map(id, ordered)) == sorted(map(id, results))
    ranks = [(SEVERITY[one.finding], one.excess) for one in ordered]
    assert ranks == sorted(ranks, reverse=True)
    assert found.against == tuple(one for one in ordered if one.finding in ("suspicious", "masked"))
    assert (found.verdict == "sound") == (bool(results) and all(one.finding == "sound" for one in results))
    unmade = sum(not one.was_run for one in results)
    if found.against:
        expected = found.against[0].sentence
    elif unmade == len(results):
        expected = "No check could be made"
    elif unmade:
        expected = f"{unmade} of {len(results)} checks could not be made, so it cannot be called sound."
    else:
        expected = f"None of {len(results)} checks speaks against it."
    assert found.summary.startswith(expected)
    assert len(set(found.advice)) == len(found.advice) and "" not in found.advice


def test_a_diagnosis_comes_back_as_it_was(tmp_path: Path) -> None:
    first = item("masked", 2.5, "soar evaluate RUN --attacks standard")
    found = Diagnosis(
        model="m", data="d", threat=L2("1.74"), examples=7, seed=3, checks=(first,), is_complete=False
    )
    found.save(tmp_path / "diagnosis.json")
    assert Diagnosis.load(tmp_path / "diagnosis.json") == found


def test_checks_that_could_not_be_made_do_not_speak_for_a_model() -> None:
    unmade = [Check(check, "t", "r").skipped("no image is right") for check in ("losses", "budgets")]
    nothing = diagnosis(*unmade)
    assert nothing.summary == "No check could be made, so nothing is known."
    assert nothing.verdict == "inconclusive"
    some = diagnosis(*unmade, item("sound"))
    assert some.verdict == "inconclusive"
    assert some.summary == "2 of 3 checks could not be made, so it cannot be called sound."
    assert [one.was_run for one in some.checks] == [False, False, True]


LIMITS = Thresholds(suspicious=0.06, masked=0.12)


@pytest.mark.parametrize(
    ("share", "low", "finding", "excess"),
    [
        (0.38, 0.32, "masked", 3.17),
        (0.12, 0.06, "masked", 1.0),
        (0.12, 0.059, "suspicious", 1.97),
        (0.119, 0.1, "suspicious", 1.98),
        (0.06, 0.03, "suspicious", 1.0),
        (0.059, 0.05, "sound", 0.98),
        (0.3, 0.02, "sound", 0.67),
        (-0.1, -0.2, "sound", 0.0),
    ],
)
def test_both_the_share_and_its_lower_end_must_reach_the_threshold(
    share: float, low: float, finding: str, excess: float
) -> None:
    judged = LIMITS.judge(share, low)
    assert (judged.finding, judged.excess) == (finding, excess)


def test_a_finding_has_an_excess_of_at_least_one_and_only_then() -> None:
    for share in torch.linspace(-0.2, 1, 61).tolist():
        for below in (0.0, 0.02, 0.1, 0.3):
            judged = LIMITS.judge(share, share - below)
            assert (judged.excess >= 1) == (judged.finding != "sound") or judged.excess == 1.0


def test_without_a_limit_for_masked_nothing_is() -> None:
    limits = Thresholds(suspicious=0.05)
    assert limits.judge(1, 0.9).finding == "suspicious"
    assert "masked" not in limits.rule and "5 points" in limits.rule


def test_small_samples_raise_no_alarm() -> None:
    """One example of ten is ten points, and says nothing."""
    first, second = torch.ones(10, dtype=torch.bool), torch.ones(10, dtype=torch.bool)
    second[0] = False
    difference, low, _ = paired(first, second)
    assert difference == 0.1 and LIMITS.judge(difference, low).finding == "sound"


def test_shares() -> None:
    flags = torch.tensor([True, False, False, False])
    share, low, high = counted(flags)
    assert share == share_of(flags) == 0.25 and 0 < low < 0.25 < high < 1
    assert share_of(torch.zeros(0, dtype=torch.bool)) == 0


def test_a_check_that_was_not_run_is_inconclusive() -> None:
    found = Check("losses", "title", "rule").skipped("nothing is correct")
    assert found.finding == "inconclusive" and found.excess == 0 and "Could not" in found.sentence


def left(count: int) -> Tensor:
    return torch.arange(1000) < count


def test_where_less_than_half_is_left_suspicion_is_proof() -> None:
    kept = {after: LIMITS.compare(left(200), left(after))[0].finding for after in (150, 120, 100, 99, 20)}
    assert kept == {150: "sound", 120: "suspicious", 100: "suspicious", 99: "masked", 20: "masked"}
    assert LIMITS.compare(left(900), left(800))[0].finding == "suspicious"
    assert LIMITS.compare(left(900), left(770))[0].finding == "masked"
    assert LIMITS.compare(left(40), left(0))[0].finding == "sound"
    assert Thresholds(suspicious=0.06).compare(left(200), left(0))[0].finding == "suspicious"


def test_a_comparison_is_paired() -> None:
    _, numbers = LIMITS.compare(left(500), left(400))
    assert tuple(numbers.values()) == paired(left(500), left(400))
