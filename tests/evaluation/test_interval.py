from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from soar.evaluation import wilson


@given(st.integers(1, 3000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_interval_equals_an_independent_implementation(counts: tuple[int, int]) -> None:
    successes, trials = counts
    expected = stats.binomtest(successes, trials).proportion_ci(0.95, method="wilson")
    assert wilson(successes, trials) == pytest.approx((expected.low, expected.high), abs=1e-12)


def test_no_examples_say_nothing() -> None:
    assert wilson(0, 0) == (0.0, 1.0)
