from __future__ import annotations

import pytest

from soar.errors import UserError
from soar.training.cost import Cost, Work


def cost(*, seconds: float | None = 2.0, processes: int = 1) -> Cost:
    update = Work(name="update", times=10, images=8, forwards=2, backwards=2, flop=3e9, seconds=seconds)
    looked = None if seconds is None else 4.0
    validation = Work(
        name="validation",
        times=5,
        images=100,
        forwards=12,
        backwards=10,
        flop=2e9,
        seconds=looked,
        needed=0.5,
    )
    return Cost(
        updates=(update,), validation=validation, updates_per_epoch=4, parameters=1000, processes=processes
    )


def test_totals_are_sums_over_what_is_needed() -> None:
    whole = cost()
    assert whole.seconds == 10 * 2.0 + 5 * 0.5 * 4.0
    assert whole.flop == 10 * 3e9 + 5 * 0.5 * 2e9
    assert whole.number == 10 and whole.epochs == 2.5
    assert whole.validation_share == pytest.approx(10 / 30)


def test_without_seconds_the_share_is_one_of_operations_and_the_time_is_unknown() -> None:
    counted = cost(seconds=None)
    assert counted.seconds is None
    assert counted.validation_share == pytest.approx(5 / 35)
    assert counted.among(4).seconds is None


def test_an_assumed_rate_gives_operations_divided_by_it() -> None:
    assumed = cost(seconds=None, processes=5).at_rate(0.001)
    assert assumed.seconds == pytest.approx(35e9 / 1e9 / 5)
    assert assumed.validation_share == pytest.approx(5 / 35)


@pytest.mark.parametrize("rate", [0.0, -1.0, float("nan")])
def test_a_rate_must_be_above_zero(rate: float) -> None:
    with pytest.raises(UserError, match=r"--tflops: got .*, expected a number above 0"):
        cost().at_rate(rate)


def test_more_processes_divide_the_time_at_best_and_send_more() -> None:
    two = cost(processes=2)
    eight = two.among(8)
    assert two.seconds is not None and eight.seconds == pytest.approx(two.seconds / 4)
    assert (two.exchanged, eight.exchanged) == (4000, 7000)
    assert eight.flop == two.flop


def test_without_held_out_images_there_are_updates_only() -> None:
    alone = Cost(updates=cost().updates, validation=None, updates_per_epoch=4, parameters=1)
    assert alone.seconds == 20.0 and alone.validation_share == 0.0
    assert alone.among(2).seconds == 10.0
