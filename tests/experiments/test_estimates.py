"""How long jobs may take."""

from __future__ import annotations

from dataclasses import replace

import pytest

from soar import recipes
from soar.cost import count_objective
from soar.experiments.estimates import START_UP, measure_seconds, train_seconds, training_images
from soar.experiments.experiment import Measurement
from soar.experiments.loading import load

SMALL = load("adv_linf", scale="small")


def test_pgd_training_takes_the_passes_that_are_counted() -> None:
    adv, standard = (SMALL.networks[name].recipe for name in ("adv", "standard"))
    ratio = count_objective("adversarial", steps=10).work / count_objective("standard").work
    expected = ratio * training_images(adv) / training_images(standard)
    assert train_seconds(adv) / train_seconds(standard) == pytest.approx(expected)
    assert 7 < ratio < 12, "ten steps and the update"


def test_wider_networks_take_longer_and_a_gpu_less() -> None:
    recipe = recipes.load("cifar10-standard-small")
    wider = replace(recipe, model={**recipe.model, "width": 64})
    assert 10 < train_seconds(wider) / train_seconds(recipe) < 17
    assert train_seconds(recipe, "cuda") < train_seconds(recipe) / 10


def test_a_training_that_stops_early_is_short() -> None:
    recipe = recipes.load("cifar10-standard-small")
    short = recipes.load("cifar10-standard-small", ["--max_steps", "30", "--batch_size", "32"])
    ratio = 30 * 32 / training_images(recipe)
    assert train_seconds(short) == pytest.approx(ratio * train_seconds(recipe))


def test_a_training_of_minutes_takes_that_long_unless_it_stops_early() -> None:
    name, stop = "cifar10-standard-small", ["--max_steps", "30"]
    assert train_seconds(recipes.load(name, ["--minutes", "2.5"]), "cuda") == 150
    early = recipes.load(name, ["--minutes", "1000", *stop])
    assert train_seconds(early) == pytest.approx(train_seconds(recipes.load(name, stop)))


def test_attacks_take_as_long_as_their_budget() -> None:
    recipe = SMALL.networks["adv"].recipe

    def work(kind: str, **options: object) -> float:
        asked = Measurement(kind=kind, options=options, examples=500)
        return measure_seconds(asked, recipe) - START_UP

    def attack(name: str, **options: object) -> float:
        return work("accuracy", attack=name, **options)

    assert attack("pgd", steps=20, restarts=50) == pytest.approx(attack("pgd", steps=1000), rel=0.06)
    assert attack("apgd", steps=100, loss="dlr", targets=9) == pytest.approx(9 * attack("apgd", steps=100))
    assert attack("square", queries=5000) < attack("pgd", steps=5000)
    assert work("points", steps=20) == pytest.approx(60 * work("clean")), "a gradient costs two more passes"
    suite = ["pgd:steps=20", "pgd:steps=20,loss=margin"]
    assert work("assessment", attacks=suite) == pytest.approx(2 * attack("pgd", steps=20))
