from __future__ import annotations

import warnings
from pathlib import Path

import pytest
import torch
from torch import nn

from soar import models
from soar.data import Augmentation
from soar.objectives import OBJECTIVES, Objective, Standard
from soar.recipes.settings import ValidationSettings
from soar.threat import Linf
from soar.training.counting import count
from soar.training.trainer import Trainer
from tests.training import small

INPUTS, CLASSES = 36, 2


def linear() -> Objective:
    return Standard(nn.Sequential(nn.Flatten(), nn.Linear(INPUTS, CLASSES)), Linf("8/255"))


def test_operations_of_a_linear_model_are_those_of_its_two_products(tmp_path: Path) -> None:
    found = count(small.trainer(tmp_path, objective=linear()))
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
    # The clean image, a random start, two steps; and the slope at the pixels before each step.
    assert (validation.forwards, validation.backwards) == (4, 2)
    assert validation.flop == 20 * (4 + 2) * product


@pytest.mark.parametrize(
    "objective, passes",
    [
        ("standard", (1, 1)),
        ("adversarial steps=10", (11, 11)),
        ("trades", (12, 12)),
        ("mart steps=3", (5, 5)),
        ("mma steps=3 bisections=4", (9, 5)),
        ("soar", (2, 4)),
        ("cure", (2, 4)),
    ],
)
def test_passes_are_those_that_soar_bench_counts(
    objective: str, passes: tuple[int, int], tmp_path: Path
) -> None:
    name, *options = objective.split()
    model = models.build("resnet10", seed=0, num_classes=2, image_shape=(1, 6, 6), options={"width": 4})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = OBJECTIVES.build(
            name, dict(option.split("=") for option in options), model, Linf("8/255"), seed=0
        )
    (update,) = count(small.trainer(tmp_path, objective=made)).updates
    assert (update.forwards, update.backwards) == passes


def test_perturbed_weights_add_one_pass_each_way_from_where_they_begin(tmp_path: Path) -> None:
    before, after = count(
        small.trainer(tmp_path, weight_perturbation=0.005, weight_perturbation_after=1.0)
    ).updates
    assert (before.times, after.times) == (6, 12)
    assert (before.forwards, before.backwards, after.forwards, after.backwards) == (1, 1, 2, 2)
    assert after.flop == 2 * before.flop


def test_nothing_is_written_and_weights_and_generators_stay(tmp_path: Path) -> None:
    trainer = small.trainer(tmp_path / "run")
    weights, state = small.weights(trainer), torch.get_rng_state()
    count(trainer)
    assert not (tmp_path / "run").exists()
    assert small.same(weights, small.weights(trainer))
    assert torch.equal(state, torch.get_rng_state())
    assert not trainer.objective.model._forward_hooks


def test_without_held_out_images_or_threat_there_is_less_to_count(tmp_path: Path) -> None:
    assert count(small.trainer(tmp_path, data=small.dataset(validation=0))).validation is None
    clean = Trainer(
        Standard(small.network()),
        small.dataset(),
        small.settings(),
        ValidationSettings(every=2),
        run=tmp_path,
        augmentation=Augmentation(),
        progress="quiet",
    )
    validation = count(clean).validation
    assert validation is not None and (validation.times, validation.needed) == (2, 1.0)
    assert (validation.forwards, validation.backwards) == (1, 0)
