from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from soar.evaluation.advice import ADVICE, as_command, as_python
from soar.evaluation.diagnosis import SEVERITY, AdviceKind, Check, CheckResult, Diagnosis, Verdict
from soar.evaluation.interval import counted, share_of
from soar.evaluation.suites import resolve
from soar.threat import L2, Linf


def item(
    finding: Verdict,
    excess: float = 0.0,
    advice: tuple[AdviceKind, ...] = (),
    others: tuple[Verdict, ...] = (),
) -> CheckResult:
    return CheckResult(
        check="made",
        title="Made",
        finding=finding,
        sentence="So.",
        rule="none",
        excess=excess,
        advice=advice,
        alternatives=others,
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


kinds = st.sampled_from([(), ("average",), ("square", "average")])
items = st.builds(item, st.sampled_from(list(SEVERITY)), st.floats(0, 100), kinds)


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
    assert len(set(found.kinds)) == len(found.kinds) == len(found.advice)
    assert not found.is_at_threshold


def test_a_diagnosis_comes_back_as_it_was(tmp_path: Path) -> None:
    first = item("masked", 2.5, ("autoattack", "transfer"), ("suspicious",))
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


def test_shares() -> None:
    flags = torch.tensor([True, False, False, False])
    share, low, high = counted(flags)
    assert share == share_of(flags) == 0.25 and 0 < low < 0.25 < high < 1
    assert share_of(torch.zeros(0, dtype=torch.bool)) == 0


def test_a_check_that_was_not_run_is_inconclusive() -> None:
    found = Check("losses", "title", "rule").skipped("nothing is correct")
    assert found.finding == "inconclusive" and found.excess == 0 and "Could not" in found.sentence


@pytest.mark.parametrize(
    ("items", "is_close"),
    [
        ([item("sound", others=("suspicious",))], True),
        ([item("sound", others=("suspicious",)), item("suspicious")], False),
        ([item("sound", others=("masked",)), item("suspicious")], True),
        ([item("suspicious", others=("sound",)), item("sound")], True),
        ([item("suspicious", others=("sound",)), item("suspicious")], False),
        ([item("suspicious", others=("masked",)), item("suspicious")], True),
        ([item("masked", others=("suspicious",)), item("inconclusive")], True),
        ([item("masked", others=("suspicious",)), item("masked")], False),
        ([item("sound"), item("masked")], False),
        ([], False),
    ],
)
def test_a_verdict_is_at_the_threshold_where_another_finding_would_change_it(
    items: list[CheckResult], is_close: bool
) -> None:
    found = diagnosis(*items)
    assert found.is_at_threshold == is_close
    assert found.summary.endswith("It is at the threshold: more images would decide.") == is_close


def test_advice_is_worded_for_where_it_is_read() -> None:
    blocked = replace(
        item("masked", 1.0, ("straight through", "square")), numbers={"lost in module": "body.1"}
    )
    found = diagnosis(blocked, item("suspicious", 1.0, ("transfer", "square")))
    assert found.advice == (
        "look in the forward pass for detach, no_grad, rounding or argmax, and attack through it:"
        " soar.evaluate(soar.attacks.straight_through(model, {'body.1': None}), data, threat)",
        "run Square, which needs no gradients, for longer:"
        " soar.evaluate(model, data, threat, 'square:queries=5000')",
        "try the adversarial images of another network that was trained on the same data:"
        " soar.diagnose(model, data, threat, sources={'other': other_model})",
    )
    commands = found.commands("runs/a", ["runs/b", "runs/c"])
    assert commands[1].endswith(": soar evaluate runs/a --attacks square:queries=5000")
    assert commands[2].endswith(": soar diagnose runs/a --source runs/b --source runs/c")
    assert all("RUN" not in line for line in (*found.advice, *commands))


def test_every_kind_of_advice_can_be_worded() -> None:
    assert set(get_args(AdviceKind)) == set(ADVICE)
    for kind in ADVICE:
        assert as_python(kind) and as_command(kind, "runs/a")
        assert "runs" not in as_python(kind)
    for one in ADVICE.values():
        assert not one.attacks or resolve(one.attacks)
