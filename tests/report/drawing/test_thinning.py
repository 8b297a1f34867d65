from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from soar.report.drawing.thinning import running_mean, thin

NUMBERS = st.lists(st.floats(-1e6, 1e6), max_size=2000)


def test_few_points_are_all_kept() -> None:
    assert thin([3, 1, 2], 300) == [0, 1, 2]


def test_a_single_spike_among_thousands_is_kept() -> None:
    values = [0.0] * 10_000
    values[4321], values[1234] = 1.0, -1.0
    assert {0, 1234, 4321, 9999} <= set(thin(values, 300))


@given(NUMBERS, st.integers(4, 400))
def test_thinning_keeps_ends_and_extremes_in_order(values: list[float], most: int) -> None:
    kept = thin(values, most)
    assert len(kept) <= most and kept == sorted(set(kept))
    if values:
        assert kept[0] == 0 and kept[-1] == len(values) - 1
        found = [values[k] for k in kept]
        assert min(found) == min(values) and max(found) == max(values)


def test_a_mean_of_one_changes_nothing() -> None:
    assert running_mean([1.0, 5.0, 2.0], 1) == [1.0, 5.0, 2.0]


def test_gaps_stay_and_count_for_nothing() -> None:
    found = running_mean([2.0, math.nan, 4.0], 3)
    assert found[0] == 2.0 and math.isnan(found[1]) and found[2] == 4.0


@given(st.lists(st.floats(-1e6, 1e6), max_size=200), st.integers(1, 50))
def test_means_stay_within_the_range(values: list[float], window: int) -> None:
    found = running_mean(values, window)
    assert len(found) == len(values)
    assert all(min(values) - 1e-6 <= one <= max(values) + 1e-6 for one in found)
