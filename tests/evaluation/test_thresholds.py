from __future__ import annotations

import pytest
import torch
from torch import Tensor

from soar.evaluation.diagnosis import Verdict
from soar.evaluation.interval import paired
from soar.evaluation.thresholds import Thresholds

LIMITS = Thresholds(suspicious=0.06, masked=0.12, halved=0.06)


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


@pytest.mark.parametrize(
    ("share", "low", "high", "finding", "others"),
    [
        (0.02, -0.01, 0.05, "sound", ()),
        (0.02, -0.05, 0.09, "sound", ()),  # less than half of the threshold
        (0.05, 0.02, 0.08, "sound", ("suspicious",)),
        (0.07, 0.04, 0.10, "suspicious", ("sound",)),
        (0.09, 0.07, 0.11, "suspicious", ()),
        (0.10, 0.07, 0.13, "suspicious", ("masked",)),
        (0.09, 0.04, 0.14, "suspicious", ("sound", "masked")),
        (0.14, 0.11, 0.17, "masked", ("suspicious",)),
        (0.30, 0.25, 0.35, "masked", ()),
    ],
)
def test_a_number_is_at_a_threshold_that_its_interval_holds(
    share: float, low: float, high: float, finding: Verdict, others: tuple[Verdict, ...]
) -> None:
    judged = LIMITS.judge(share, low, high)
    assert (judged.finding, judged.alternatives) == (finding, others)


def test_with_one_threshold_there_is_nothing_between() -> None:
    far = Thresholds(masked=0.12, halved=0.06)
    assert far.judge(0.13, 0.09, 0.17).finding == "masked"
    assert far.judge(0.13, 0.09, 0.17).alternatives == ("sound",)
    assert far.judge(0.10, 0.06, 0.14).alternatives == ("masked",)
    assert "suspicious" not in far.rule and "if less than half is left" in far.rule


def test_half_is_a_threshold_too() -> None:
    """Of 80 images 39 or 41 may be left by chance, and the finding hangs on it."""
    few = torch.arange(1000) < 80
    for after in (39, 41):
        judged, _ = Thresholds(masked=0.12, halved=0.03).compare(few, torch.arange(1000) < after)
        assert {judged.finding, *judged.alternatives} == {"sound", "masked"}
    judged, _ = Thresholds(masked=0.12, halved=0.03).compare(few, torch.arange(1000) < 5)
    assert judged.finding == "masked" and judged.alternatives == ()


@pytest.mark.parametrize("share", [0.01, 0.04, 0.06, 0.09, 0.12, 0.2])
def test_samples_that_disagree_say_so(share: float) -> None:
    """Whatever the sample, the verdict is that of the true share or the text says that it may not be."""
    truth = LIMITS.judge(share, share, share).finding
    disagreeing = silent = 0
    generator = torch.Generator().manual_seed(0)
    for count in (100, 200, 400):
        for _ in range(50):
            before = torch.ones(count, dtype=torch.bool)
            after = torch.rand(count, generator=generator) >= share
            judged, _ = LIMITS.compare(before, after)
            if judged.finding != truth:
                disagreeing += 1
                silent += not judged.alternatives
    # The intervals are of 95%, and nearly so in small samples.
    assert silent <= 0.08 * 150, (disagreeing, silent)
