from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import torch

from soar.cost.step import measure_steps, memory_growth
from soar.cost.workload import Workload

TINY = Workload(name="tiny", model="cnn6", options=(("width", 4), ("hidden", 8)), batch_size=4)


def test_searches_around_right_examples_have_all_their_work_to_do_with_batch_norm_too() -> None:
    network = Workload(
        name="n",
        model="resnet10",
        options=(("width", 8), ("norm", "batch")),
        image_shape=(3, 8, 8),
        batch_size=8,
    )
    (cost,) = measure_steps(["mma:steps=2,bisection_steps=2"], network, repeats=1, memory=False)
    assert (cost.forwards, cost.backwards) == (6, 4)


@pytest.mark.parametrize(
    "objective, passes",
    [
        ("standard", (1, 1)),
        ("adversarial:steps=10", (11, 11)),
        ("foar:init=zero", (1, 2)),
        ("foar:init=pgd-1", (2, 3)),
        # A start of one step, two gradients, and a last pass that comes back through both points.
        ("soar:hvp=finite-difference", (3, 5)),
        ("soar:hvp=finite-difference,num_directions=2", (4, 7)),
        # A start, then one forward pass of dual numbers that gives loss, gradient and curvature.
        ("soar", (2, 4)),
        ("trades", (12, 12)),
        ("mart:steps=3", (5, 5)),
        ("mma:steps=3,bisection_steps=4", (9, 5)),
        ("cure", (2, 4)),
        ("llr:steps=3", (5, 6)),
    ],
)
def test_passes_are_the_arithmetic_of_the_methods(objective: str, passes: tuple[int, int]) -> None:
    (cost,) = measure_steps([objective], TINY, repeats=1, memory=False)
    assert (cost.forwards, cost.backwards) == passes
    assert cost.seconds > 0 and cost.mebibytes is None


def test_every_step_is_told_and_all_but_the_first_count() -> None:
    told: list[str] = []
    costs = measure_steps(["standard", "foar"], TINY, repeats=3, memory=False, done=told.append)
    assert told == 4 * ["standard", "foar"]
    assert [len(cost.times) for cost in costs] == [3, 3]


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="only Linux can reset the peak")
def test_memory_growth_is_the_peak_and_not_the_sum() -> None:
    found = memory_growth(prepare, 5, 40)
    assert found is not None and 39 < found < 60


def prepare(count: int, mebibytes: int) -> Callable[[], None]:
    return partial(one_after_the_other, count, mebibytes)


def one_after_the_other(count: int, mebibytes: int) -> None:
    for _ in range(count):
        torch.ones(mebibytes * 2**20, dtype=torch.uint8)
