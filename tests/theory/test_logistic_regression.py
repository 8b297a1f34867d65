from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from soar.theory import logistic_regression as theory


@given(st.floats(-6, 6), st.sampled_from([0.0, 1.0]), st.floats(0.1, 4), st.floats(0.01, 2))
def test_maxima_are_those_found_by_trying(logit: float, label: float, norm: float, radius: float) -> None:
    z, y = torch.tensor([logit], dtype=torch.float64), torch.tensor([label], dtype=torch.float64)
    # Only the component along w matters, so one number t = w^T delta stands for delta.
    t = torch.linspace(-radius * norm, radius * norm, 2001, dtype=torch.float64)
    f = z.sigmoid()
    expanded = theory.loss(z, y) + (f - y) * t + f * (1 - f) / 2 * t.square()
    torch.testing.assert_close(theory.second_order_maximum(z, y, norm, radius)[0], expanded.max())
    torch.testing.assert_close(theory.exact_maximum(z, y, norm, radius)[0], theory.loss(z + t, y).max())


def test_confidence_switches_the_penalty_off_but_not_the_adversary() -> None:
    rows = theory.table(3.0)
    penalties = [row["penalty"] for row in rows]
    assert penalties == sorted(penalties, reverse=True) and penalties[-1] < 1e-9
    reached = [row["worst rise"] for row in rows]
    assert reached == sorted(reached) and reached[-1] > 10


def test_a_start_brings_the_penalty_back_only_across_the_boundary() -> None:
    short, long = (theory.table(radius, factors=[2.0, 32.0]) for radius in (3.0, 5.0))
    assert short[1]["penalty at start"] < 0.01 * short[0]["penalty at start"]
    assert long[1]["penalty at start"] > long[0]["penalty at start"]
