from __future__ import annotations

import warnings

import pytest

from soar.bench.networks import Network
from soar.bench.step import build, measure

TINY = Network(name="tiny", model="cnn6", options=(("width", 4), ("hidden", 8)), batch_size=4)


def test_searches_around_right_examples_have_all_their_work_to_do_with_batch_norm_too() -> None:
    network = Network(
        name="n",
        model="resnet10",
        options=(("width", 8), ("norm", "batch")),
        image_shape=(3, 8, 8),
        batch_size=8,
    )
    (cost,) = measure(["mma steps=2 bisections=2"], network, repeats=1, memory=False)
    assert (cost.forwards, cost.backwards) == (6, 4)


@pytest.mark.parametrize(
    "objective, passes",
    [
        ("standard", (1, 1)),
        ("adversarial steps=10", (11, 11)),
        ("foar start=zero", (1, 2)),
        ("foar start=pgd-1", (2, 3)),
        # A start of one step, two gradients, and a last pass that comes back through both points.
        ("soar product=difference", (3, 5)),
        ("soar product=difference samples=2", (4, 7)),
        # A start, then one forward pass of dual numbers that gives loss, slope and curvature.
        ("soar", (2, 4)),
        ("trades", (12, 12)),
        ("mart steps=3", (5, 5)),
        ("mma steps=3 bisections=4", (9, 5)),
        ("cure", (2, 4)),
        ("llr steps=3", (5, 6)),
    ],
)
def test_passes_are_the_arithmetic_of_the_methods(objective: str, passes: tuple[int, int]) -> None:
    (cost,) = measure([objective], TINY, repeats=1, memory=False)
    assert (cost.forwards, cost.backwards) == passes
    assert cost.seconds > 0 and cost.mebibytes is None


def test_every_step_is_told_and_all_but_the_first_count() -> None:
    told: list[str] = []
    costs = measure(["standard", "foar"], TINY, repeats=3, memory=False, done=told.append)
    assert told == 4 * ["standard", "foar"]
    assert [len(cost.times) for cost in costs] == [3, 3]


def test_networks_with_batch_norm_are_measured_in_silence() -> None:
    network = Network(name="bn", model="cnn6", options=(*TINY.options, ("norm", "batch")), batch_size=2)
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        build("soar", network)
    assert not heard
