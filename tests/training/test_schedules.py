from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from soar.recipes.settings import TrainingSettings
from soar.training.schedules import eps_factor, lr_factor


def settings(**changes: Any) -> TrainingSettings:
    return TrainingSettings(**({"epochs": 4, "batch_size": 8, "lr": 0.5} | changes))


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"schedule": "constant"}, [1, 1, 1, 1, 1, 1, 1, 1]),
        ({"schedule": "constant", "warmup_epochs": 2}, [0.25, 0.5, 0.75, 1, 1, 1, 1, 1]),
        (
            {"schedule": "step", "milestones": (1.0, 2.5), "decay": 0.1},
            [1, 1, 0.1, 0.1, 0.1, 0.01, 0.01, 0.01],
        ),
        (
            {"schedule": "step", "milestones": (1.0, 2.5), "decay": (0.3, 0.5)},
            [1, 1, 0.3, 0.3, 0.3, 0.15, 0.15, 0.15],
        ),
        (
            {"schedule": "step", "milestones": (2.5, 1.0), "decay": (0.5, 0.3)},
            [1, 1, 0.3, 0.3, 0.3, 0.15, 0.15, 0.15],
        ),
        (
            {"schedule": "step", "milestones": (2.0,), "decay": (0.3,), "warmup_epochs": 1},
            [0.5, 1, 1, 1, 0.3, 0.3, 0.3, 0.3],
        ),
        (
            {"schedule": "cosine", "warmup_epochs": 1},
            [0.5, 1, 1, 0.9330127, 0.75, 0.5, 0.25, 0.0669873],
        ),
        ({"schedule": "one-cycle", "warmup_epochs": 1}, [0.5, 1, 1, 5 / 6, 4 / 6, 3 / 6, 2 / 6, 1 / 6]),
        (
            {"schedule": "one-cycle", "warmup_fraction": 0.5},
            [0.25, 0.5, 0.75, 1, 1, 3 / 4, 2 / 4, 1 / 4],
        ),
        ({"schedule": "constant", "warmup_fraction": 0.25}, [0.5, 1, 1, 1, 1, 1, 1, 1]),
        ({"schedule": "one-cycle"}, [0.5, 1, 1, 5 / 6, 4 / 6, 3 / 6, 2 / 6, 1 / 6]),
    ],
)
def test_hand_computed_rates(changes: Any, expected: list[float]) -> None:
    rates = [lr_factor(settings(**changes), step, 2) for step in range(8)]
    assert rates == pytest.approx(expected, abs=1e-7)


@pytest.mark.parametrize("epochs", [5, 10, 40])
def test_a_fraction_is_that_of_any_length(epochs: int) -> None:
    chosen = settings(epochs=epochs, warmup_fraction=0.2)
    rates = [lr_factor(chosen, step, 3) for step in range(3 * epochs)]
    rise = round(0.2 * 3 * epochs)
    assert rates[: rise + 1] == pytest.approx([*((step + 1) / rise for step in range(rise)), 1])
    assert all(after < before for before, after in pairwise(rates[rise:]))


@given(
    schedule=st.sampled_from(["constant", "step", "cosine", "one-cycle"]),
    epochs=st.integers(1, 5),
    per_epoch=st.integers(1, 40),
    warmup=st.floats(0, 6),
)
def test_every_rate_is_positive_and_at_most_the_highest(
    schedule: Any, epochs: int, per_epoch: int, warmup: float
) -> None:
    chosen = settings(schedule=schedule, epochs=epochs, warmup_epochs=warmup, milestones=(1.0,))
    rates = [lr_factor(chosen, step, per_epoch) for step in range(epochs * per_epoch)]
    assert all(0 < rate <= 1 for rate in rates)


def test_the_threat_grows_linearly_and_is_never_zero() -> None:
    chosen = settings(eps_warmup_epochs=1.5)
    factors = [eps_factor(chosen, step, 2) for step in range(5)]
    assert factors == [Fraction(1, 3), Fraction(2, 3), 1, 1, 1]
    assert eps_factor(settings(), 0, 2) == 1
