from __future__ import annotations

import math

import pytest
import torch

from soar.evaluation.files import bits
from soar.evaluation.interval import paired
from soar.experiments.intervals import Estimate, _student, difference, leaders, of
from soar.experiments.result import Cell, Result


def flags(correct: int, of_all: int = 100, first: int = 0) -> torch.Tensor:
    made = torch.zeros(of_all, dtype=torch.bool)
    made[first : first + correct] = True
    return made


def test_a_single_number_without_interval_has_no_width() -> None:
    assert of(Cell(values=(3.5,))) == Estimate(3.5, 3.5, 3.5)
    assert str(of(Cell(values=(3.5,)))) == "3.50 (no interval known)"


def test_the_interval_of_the_examples_is_moved_to_the_mean_of_the_seeds() -> None:
    # Two seeds that agree do not widen it; the first seed's value is 50 as is the mean.
    assert of(Cell(values=(50.0, 50.0), low=46.0, high=55.0)) == Estimate(50.0, 46.0, 55.0)


def test_seeds_widen_the_interval_by_student() -> None:
    # s = 1, n = 3: 4.303 / sqrt(3)
    found = of(Cell(values=(50.0, 49.0, 51.0)))
    assert found.high - found.value == pytest.approx(4.303 / math.sqrt(3), abs=1e-9)
    # Examples and seeds err independently: 3 and 4 make 5.
    spread = 4.303 / math.sqrt(3)
    both = of(Cell(values=(50.0, 49.0, 51.0), low=50.0 - spread * 3 / 4, high=50.0 + spread * 3 / 4))
    assert both.value - both.low == pytest.approx(spread * 5 / 4)


def test_two_accuracies_are_compared_on_the_same_examples() -> None:
    one, other = flags(40), flags(30)
    expected = [100 * number for number in paired(one, other)]
    cells = (
        Cell(values=(40.0,), low=30.9, high=49.8, correct=bits(one)),
        Cell(values=(30.0,), low=21.9, high=39.6, correct=bits(other)),
    )
    found = difference(*cells)
    assert [found.value, found.low, found.high] == pytest.approx(expected)
    apart = difference(*(Cell(values=cell.values, low=cell.low, high=cell.high) for cell in cells))
    # Unrelated samples of this size would not tell the two apart.
    assert found.low > 0 > apart.low


def test_two_means_are_compared_on_the_same_examples() -> None:
    # The losses lie far apart, but the second is a tenth lower everywhere: the difference is known exactly.
    one = Cell(values=(2.0,), low=0.6, high=3.4, each=(1.0, 2.0, 3.0))
    other = Cell(values=(1.9,), low=0.5, high=3.3, each=(0.9, 1.9, 2.9))
    found = difference(one, other)
    assert [found.value, found.low, found.high] == pytest.approx([0.1, 0.1, 0.1])
    # Differences 0, 0.1, 0.2: standard deviation 0.1, 1.96 * 0.1 / sqrt(3)
    other = Cell(values=(1.9,), low=0.5, high=3.3, each=(1.0, 1.9, 2.8))
    assert difference(one, other).high - 0.1 == pytest.approx(0.113, abs=5e-4)


def test_means_over_other_examples_are_not_paired() -> None:
    one = Cell(values=(2.0,), low=1.0, high=3.0, each=(1.0, 2.0, 3.0))
    other = Cell(values=(2.0,), low=1.0, high=3.0, each=(1.0, 3.0))
    assert difference(one, other).high == pytest.approx(math.sqrt(2))


def test_other_examples_are_not_paired() -> None:
    one = Cell(values=(40.0,), low=31.0, high=50.0, correct=bits(flags(40)))
    other = Cell(values=(30.0,), low=18.0, high=45.0, correct=bits(flags(15, 50)))
    assert difference(one, other) == Estimate(10.0, 10.0 - math.hypot(9, 15), 10.0 + math.hypot(10, 12))


def test_the_difference_of_seeds_is_welchs() -> None:
    # v = 1/3 each, 4 degrees of freedom: 2.776 sqrt(2/3)
    found = difference(Cell(values=(50.0, 49.0, 51.0)), Cell(values=(40.0, 39.0, 41.0)))
    assert found.value == 10.0 and found.high - 10.0 == pytest.approx(2.776 * math.sqrt(2 / 3))
    # One of them does not vary: its degrees of freedom do not count.
    found = difference(Cell(values=(50.0, 49.0, 51.0)), Cell(values=(40.0, 40.0, 40.0)))
    assert found.high - 10.0 == pytest.approx(4.303 / math.sqrt(3))


def test_columns_of_one_network_differ_seed_by_seed() -> None:
    one, other = Cell(values=(50.0, 40.0, 60.0)), Cell(values=(49.0, 39.0, 59.0))
    assert difference(one, other, same_networks=True) == Estimate(1.0, 1.0, 1.0)
    assert difference(one, other).low < -20


def test_paired_flags_and_seeds_together() -> None:
    one = Cell(values=(40.0, 42.0), correct=bits(flags(40)))
    other = Cell(values=(30.0, 30.0), correct=bits(flags(30)))
    examples = 100 * (paired(flags(40), flags(30))[2] - 0.1)
    # s^2 = 2, n = 2, one degree of freedom
    found = difference(one, other)
    assert found.value == 11.0
    assert found.high - 11.0 == pytest.approx(math.hypot(examples, 12.706 * math.sqrt(2 / 2)))


@pytest.mark.parametrize(
    ("freedom", "quantile"), [(1, 12.706), (10, 2.228), (11, 2.201), (20, 2.086), (60, 2.0)]
)
def test_quantiles_of_student(freedom: int, quantile: float) -> None:
    assert _student(freedom) == pytest.approx(quantile, abs=3e-3)


def test_rows_whose_difference_may_be_chance_lead_together() -> None:
    def row(correct: int, first: int = 0) -> dict[str, Cell]:
        return {"worst case": Cell(values=(float(correct),), correct=bits(flags(correct, first=first)))}

    rows = {"low": row(30), "nested": row(60), "other images": row(60, first=40), "top": row(66), "none": {}}
    rows["missing"] = {"worst case": Cell(missing="not trained")}
    result = Result(name="made", rows=rows)
    assert leaders(result, "worst case") == ["top", "other images"]  # nested images tell 66 from 60
    assert leaders(result, "clean") == []
