from __future__ import annotations

import math
from itertools import permutations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize
from torch import Tensor

from soar import randomness
from soar.geometry import fill, sparse, threshold


def numbers(seed: int, stream: str, count: int = 5, size: int = 8) -> Tensor:
    """Numbers from 0 to 2, of which about a quarter are zero and some equal."""
    draws = randomness.uniform(randomness.key(seed, torch.arange(count), stream), (size,), torch.float64)
    return (32 * (draws - 0.25).clamp(min=0)).round() / 12


def held(t: Tensor, size: Tensor, room: Tensor) -> Tensor:
    return torch.minimum((size - t[:, None]).clamp(min=0), room).sum(dim=1)


@given(st.integers(0, 10_000), st.floats(0.01, 20))
def test_the_threshold_is_where_bisection_finds_it(seed: int, radius: float) -> None:
    size, room = numbers(seed, "size"), numbers(seed, "room")
    t = threshold(size, room, radius)
    for row in range(len(t)):

        def excess(at: float, row: int = row) -> float:
            one = slice(row, row + 1)
            return float(held(torch.tensor([at], dtype=torch.float64), size[one], room[one])) - radius

        if excess(0.0) <= 0:
            assert t[row] == 0
        else:
            root = optimize.bisect(excess, 0.0, 3.0, xtol=1e-14)
            # The sum may be the radius on a whole interval.
            assert excess(float(t[row])) == pytest.approx(0, abs=1e-12) and t[row] <= root + 1e-12


def test_each_row_has_a_radius_of_its_own() -> None:
    size, room = numbers(1, "size"), numbers(1, "room")
    radii = torch.tensor([0.1, 0.5, 1.0, 2.0, 50.0], dtype=torch.float64)
    together = threshold(size, room, radii)
    for row in range(5):
        alone = threshold(size[row : row + 1], room[row : row + 1], float(radii[row]))
        assert torch.equal(together[row : row + 1], alone)


def test_the_threshold_in_single_precision_on_large_images() -> None:
    keys = randomness.key(0, torch.arange(3), "large")
    size = randomness.normal(keys, (150_528,)).abs()
    room = randomness.uniform(keys + 1, (150_528,))
    t = threshold(size, room, 12.0)
    torch.testing.assert_close(held(t, size, room), torch.full((3,), 12.0), rtol=1e-4, atol=0)


@given(st.integers(0, 10_000), st.floats(0, 12))
def test_a_budget_is_spent_as_linear_programming_spends_it(seed: int, budget: float) -> None:
    worth, capacity = numbers(seed, "worth", 2), numbers(seed, "capacity", 2)
    spent = fill(worth, capacity, budget)
    assert (spent >= 0).all() and (spent <= capacity).all()
    assert (spent.sum(dim=1) <= budget + 1e-12).all()
    for row in range(2):
        solved = optimize.linprog(
            -worth[row].numpy(),
            A_ub=np.ones((1, 8)),
            b_ub=[budget],
            bounds=[(0, most) for most in capacity[row].tolist()],
        )
        assert float(worth[row] @ spent[row]) == pytest.approx(-solved.fun, abs=1e-9)


def test_a_budget_is_spent_as_well_as_in_any_order() -> None:
    worth = torch.tensor([[3.0, 1.0, 2.0, 2.0]], dtype=torch.float64)
    capacity = torch.tensor([[0.5, 1.0, 0.25, 0.75]], dtype=torch.float64)
    for budget in (0.3, 0.6, 1.2, 5.0):
        best = 0.0
        for order in permutations(range(4)):
            left, value = budget, 0.0
            for i in order:
                used = min(left, capacity[0, i].item())
                left, value = left - used, value + used * worth[0, i].item()
            best = max(best, value)
        assert float((worth * fill(worth, capacity, budget)).sum()) == pytest.approx(best)


def test_budgets_of_rows_and_ties() -> None:
    worth, capacity = torch.ones(2, 3), torch.full((2, 3), 0.5)
    spent = fill(worth, capacity, torch.tensor([0.75, 9.0]))
    assert spent.tolist() == [[0.5, 0.25, 0.0], [0.5, 0.5, 0.5]]


@given(st.integers(0, 10_000), st.floats(0.1, 9))
def test_a_length_is_shared_by_those_worth_most(seed: int, count: float) -> None:
    worth = numbers(seed, "worth")
    shared = sparse(worth, count, 3.0)
    for row in range(5):
        values = worth[row].tolist()
        least = sorted(values, reverse=True)[min(max(math.ceil(count), 1), 8) - 1]
        chosen = [one >= least and one > 0 for one in values]
        assert (shared[row] > 0).tolist() == chosen
        if any(chosen):
            assert shared[row].tolist() == pytest.approx([3.0 / sum(chosen) * one for one in chosen])


def test_each_row_shares_a_length_of_its_own_among_a_count_of_its_own() -> None:
    worth = torch.tensor([[1.0, 2.0, 3.0], [1.0, 2.0, 3.0]])
    found = sparse(worth, torch.tensor([0.0, 1.5]), torch.tensor([5.0, 6.0]))
    assert found.tolist() == [[0.0, 0.0, 5.0], [0.0, 3.0, 3.0]]
    assert sparse(worth[:0], 2, 1.0).shape == (0, 3)
