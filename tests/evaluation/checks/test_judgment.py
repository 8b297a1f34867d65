from __future__ import annotations

import pytest
import torch
from torch import Tensor

from soar.evaluation.checks.judgment import Thresholds, counted, not_made, share_of
from soar.evaluation.interval import paired

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


def test_a_check_that_was_not_made_is_no_evidence() -> None:
    found = not_made("losses", "title", "rule", "nothing is right")
    assert found.finding == "inconclusive" and found.excess == 0 and "Could not" in found.sentence


def left(count: int) -> Tensor:
    return torch.arange(1000) < count


def test_where_less_than_half_is_left_suspicion_is_proof() -> None:
    kept = {after: LIMITS.compare(left(200), left(after)).judged.finding for after in (150, 120, 100, 99, 20)}
    assert kept == {150: "sound", 120: "suspicious", 100: "suspicious", 99: "masked", 20: "masked"}
    assert LIMITS.compare(left(900), left(800)).judged.finding == "suspicious"
    assert LIMITS.compare(left(900), left(770)).judged.finding == "masked"
    assert LIMITS.compare(left(40), left(0)).judged.finding == "sound"
    assert Thresholds(suspicious=0.06).compare(left(200), left(0)).judged.finding == "suspicious"


def test_a_comparison_is_paired() -> None:
    found = LIMITS.compare(left(500), left(400))
    assert (found.difference, found.low, found.high) == paired(left(500), left(400))
