from __future__ import annotations

import sys
import warnings
from itertools import count
from pathlib import Path

import pytest
import torch
from torch import nn

from soar import models, recipes
from soar.cost.training import PhaseCost, TrainingCost, count_training, measure_training
from soar.data import Augmentation
from soar.objectives import OBJECTIVES, Objective, Standard
from soar.options import parse_spec
from soar.recipes.settings import ValidationSettings
from soar.runs import Run
from soar.threat import Linf
from soar.training.prepare import prepare
from soar.training.trainer import Trainer
from tests.training import small

INPUTS, CLASSES = 36, 2


def cost(*, seconds: float | None = 2.0, processes: int = 1) -> TrainingCost:
    update = PhaseCost(times=10, images=8, forwards=2, backwards=2, flop=3e9, seconds=seconds)
    looked = None if seconds is None else 4.0
    validation = PhaseCost(
        times=5,
        images=100,
        forwards=12,
        backwards=10,
        flop=2e9,
        seconds=looked,
        needed=0.5,
    )
    return TrainingCost(
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


def test_an_assumed_rate_gives_operations_divided_by_it() -> None:
    assumed = cost(seconds=None, processes=5).at_rate(0.001)
    assert assumed.seconds == pytest.approx(35e9 / 1e9 / 5)
    assert assumed.validation_share == pytest.approx(5 / 35)


def test_a_time_is_filled_with_updates_and_the_validations_between_them() -> None:
    # An update takes 2 s, and a tenth of the half of a validation that is needed, 0.2 s.
    short = cost().within(220.0, period=10)
    assert (short.number, short.validation and short.validation.times) == (100, 10)
    assert short.seconds == pytest.approx(220.0)
    odd = cost().within(231.0, period=10)
    assert (odd.number, odd.validation and odd.validation.times) == (105, 11), "the last comes on top"
    assert cost().within(220.0, period=10, most=7).number == 7
    assert cost().within(0.001, period=10).number == 1


def test_each_kind_of_update_has_its_share_of_the_time() -> None:
    first, second = (
        PhaseCost(times=times, images=8, forwards=1, backwards=1, flop=1.0, seconds=seconds)
        for times, seconds in ((1, 2.0), (3, 4.0))
    )
    both = TrainingCost(updates=(first, second), validation=None, updates_per_epoch=4, parameters=1)
    assert [phase.times for phase in both.within(80.0, period=4).updates] == [10, 15]
    assert [phase.times for phase in both.within(80.0, period=4, most=12).updates] == [10, 2]


def test_more_processes_send_more() -> None:
    assert [cost(processes=n).exchanged for n in (1, 2, 8)] == [0, 4000, 7000]


def test_without_held_out_images_there_are_updates_only() -> None:
    alone = TrainingCost(updates=cost().updates, validation=None, updates_per_epoch=4, parameters=1)
    assert alone.seconds == 20.0 and alone.validation_share == 0.0


def linear() -> Objective:
    return Standard(nn.Sequential(nn.Flatten(), nn.Linear(INPUTS, CLASSES)), Linf("8/255"))


def test_operations_of_a_linear_model_are_those_of_its_two_products(tmp_path: Path) -> None:
    found = count_training(small.trainer(tmp_path, objective=linear()))
    product = 2 * INPUTS * CLASSES
    (update,) = found.updates
    assert (update.forwards, update.backwards) == (1, 1)
    # The gradient of the weights is a product as large as the forward one.
    assert update.flop == 8 * 2 * product
    assert found.parameters == INPUTS * CLASSES + CLASSES
    assert (found.number, found.updates_per_epoch, found.epochs) == (18, 6, 3)
    assert found.seconds is None
    validation = found.validation
    assert validation is not None and (validation.times, validation.images) == (3, 20)
    # The clean image, a random start, two steps; and the gradient before each step.
    assert (validation.forwards, validation.backwards) == (4, 2)
    assert validation.flop == 20 * (4 + 2) * product


@pytest.mark.parametrize(
    "objective, passes",
    [
        ("standard", (1, 1)),
        ("adversarial:steps=10", (11, 11)),
        ("trades", (12, 12)),
        ("mart:steps=3", (5, 5)),
        ("mma:steps=3,bisection_steps=4", (9, 5)),
        ("soar", (2, 4)),
        ("cure", (2, 4)),
    ],
)
def test_passes_are_those_that_soar_bench_counts(
    objective: str, passes: tuple[int, int], tmp_path: Path
) -> None:
    name, options = parse_spec(objective, "objectives")
    model = models.build("resnet10", seed=0, num_classes=2, image_shape=(1, 6, 6), options={"width": 4})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = OBJECTIVES.build(name, options, model, Linf("8/255"), seed=0)
    (update,) = count_training(small.trainer(tmp_path, objective=made)).updates
    assert (update.forwards, update.backwards) == passes


def test_perturbed_weights_add_one_pass_each_way_from_where_they_begin(tmp_path: Path) -> None:
    before, after = count_training(
        small.trainer(tmp_path, weight_perturbation=0.005, weight_perturbation_after=1.0)
    ).updates
    assert (before.times, after.times) == (6, 12)
    assert (before.forwards, before.backwards, after.forwards, after.backwards) == (1, 1, 2, 2)
    assert after.flop == 2 * before.flop


def test_nothing_is_written_and_weights_and_generators_stay(tmp_path: Path) -> None:
    trainer = small.trainer(tmp_path / "run")
    weights, state = small.weights(trainer), torch.get_rng_state()
    count_training(trainer)
    assert not (tmp_path / "run").exists()
    assert small.same(weights, small.weights(trainer))
    assert torch.equal(state, torch.get_rng_state())
    assert not trainer.objective.model._forward_hooks


def test_without_held_out_images_or_threat_there_is_less_to_count(tmp_path: Path) -> None:
    assert count_training(small.trainer(tmp_path, data=small.dataset(validation=0))).validation is None
    clean = Trainer(
        Standard(small.network()),
        small.dataset(),
        small.settings(),
        ValidationSettings(every=2),
        run=tmp_path,
        augmentation=Augmentation(),
        progress="quiet",
    )
    validation = count_training(clean).validation
    assert validation is not None and (validation.times, validation.needed) == (2, 1.0)
    assert (validation.forwards, validation.backwards) == (1, 0)


def test_seconds_are_those_of_the_clock(tmp_path: Path) -> None:
    ticks = count()
    found = measure_training(small.trainer(tmp_path / "run"), lambda: float(next(ticks)))
    (update,) = found.updates
    # The clock is asked around the wait for a batch and around the update.
    assert update.seconds == 2.0
    validation = found.validation
    assert validation is not None and validation.seconds == pytest.approx(1.0)
    assert found.seconds == pytest.approx(18 * 2.0 + 3 * 0.5 * 1.0)
    assert not (tmp_path / "run").exists()


def test_an_epoch_that_is_shorter_than_the_measurement_begins_again(tmp_path: Path) -> None:
    ticks = count()
    found = measure_training(
        small.trainer(tmp_path, data=small.dataset(train=8)), lambda: 0.001 * next(ticks)
    )
    assert found.number == 3 and found.updates[0].seconds == pytest.approx(0.002)


def test_memory_is_that_of_the_process(tmp_path: Path) -> None:
    found = measure_training(small.trainer(tmp_path))
    if sys.platform == "linux":
        assert found.mebibytes is not None and 100 < found.mebibytes < 100_000


@pytest.mark.slow
def test_a_real_training_takes_what_was_planned(tmp_path: Path) -> None:
    """Within a factor of two, on whatever else the machine does; docs/results/plan.txt has the figures."""
    flags = ["--max_steps", "60", "--validation.examples", "100", "--guards.overfitting", "off"]
    run = Run(tmp_path / "run", recipes.load("demo-robust", flags))
    planned = measure_training(prepare(run, progress="quiet")).seconds
    trainer = prepare(run, progress="quiet")
    run.create()
    real = trainer.fit().seconds
    assert planned is not None and 0.5 < planned / real < 2
