from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from soar.evaluation import wilson
from soar.evaluation.interval import clopper_pearson, is_tied, leading, paired


@given(st.integers(1, 3000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_interval_equals_an_independent_implementation(counts: tuple[int, int]) -> None:
    successes, trials = counts
    expected = stats.binomtest(successes, trials).proportion_ci(0.95, method="wilson")
    assert wilson(successes, trials) == pytest.approx((expected.low, expected.high), abs=1e-12)


def test_no_examples_say_nothing() -> None:
    assert wilson(0, 0) == (0.0, 1.0)


def test_paired_counts_only_examples_on_which_both_differ() -> None:
    first = torch.tensor([True] * 30 + [False] * 70)
    second = first.clone()
    second[:12] = False
    second[90:94] = True
    difference, low, high = paired(first, second)
    assert difference == pytest.approx(0.08)
    half = 1.959963984540054 * (12 + 4 + 1 - 64 / 100) ** 0.5 / 100
    assert (low, high) == pytest.approx((0.08 - half, 0.08 + half))
    assert paired(second, first) == pytest.approx((-difference, -high, -low))


def test_paired_has_a_width_where_both_agree_and_covers_everything_without_examples() -> None:
    flags = torch.tensor([True, False])
    difference, low, high = paired(flags, flags)
    assert difference == 0 and low < 0 < high
    empty = torch.zeros(0, dtype=torch.bool)
    assert paired(empty, empty) == (0.0, -1.0, 1.0)


@given(seed=st.integers(0, 2**31), size=st.integers(200, 400))
@settings(max_examples=20, deadline=None)
def test_paired_intervals_hold_the_truth_about_as_often_as_they_promise(seed: int, size: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    both = torch.rand(300, size, generator=generator)
    # Right for both below 0.5, for the first only up to 0.7, for the second only up to 0.8: the truth is 0.1.
    first, second = both < 0.7, (both < 0.5) | ((both >= 0.7) & (both < 0.8))
    held = [low <= 0.1 <= high for _, low, high in map(paired, first, second)]
    assert 0.88 <= sum(held) / 300 <= 0.995


@given(
    st.integers(1, 100_000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))),
    st.sampled_from([0.05, 0.001, 1e-6]),
)
def test_clopper_pearson_is_a_quantile_of_the_beta_distribution(
    counts: tuple[int, int], alpha: float
) -> None:
    successes, trials = counts
    expected = stats.beta.ppf(alpha, successes, trials - successes + 1) if successes else 0.0
    assert clopper_pearson(successes, trials, alpha) == pytest.approx(expected, rel=1e-7, abs=1e-12)


def test_clopper_pearson_is_wrong_no_more_often_than_it_says() -> None:
    # The chance that the bound of 30 draws exceeds the truth, summed over all outcomes.
    for truth in (0.1, 0.5, 0.93):
        wrong = [k for k in range(31) if clopper_pearson(k, 30, 0.05) > truth]
        assert stats.binom.pmf(wrong, 30, truth).sum() <= 0.05


def test_the_highest_leads_with_those_whose_interval_includes_zero() -> None:
    shares = [0.5, 0.7, 0.69, 0.2]
    ends = {0: (0.1, 0.3), 2: (-0.01, 0.03), 3: (0.4, 0.6)}
    asked: list[tuple[int, int]] = []

    def difference(one: int, other: int) -> tuple[float, float]:
        asked.append((one, other))
        return ends[other]

    assert leading(shares, difference) == [1, 2]
    assert asked == [(1, 0), (1, 2), (1, 3)], "the highest minus each other"
    assert leading([], difference) == [] and leading([0.3], difference) == [0]


def test_an_interval_that_only_touches_zero_is_a_tie() -> None:
    assert is_tied(0.0, 0.1) and is_tied(-0.1, 0.0) and is_tied(0.0, 0.0)
    assert not is_tied(1e-9, 0.1) and not is_tied(-0.1, -1e-9)
