"""How long jobs may take."""

from __future__ import annotations

import pytest
from soar.experiments.measuring.measurement import Measurement
from soar.experiments.planning.estimates import START_UP, measure_seconds, train_seconds, training_passes

from soar.experiments.planning import text_tables
from soar.experiments.planning.networks import NAMES, network
from soar.experiments.planning.scales import SCALES

SMALL = SCALES["small"]


def test_pgd_training_takes_a_pass_for_each_step_and_one_more() -> None:
    adv, standard = (network(name, SMALL, 0).recipe for name in ("adv", "standard"))
    assert train_seconds(adv, SMALL) == pytest.approx(4 * 45_000 * 11 * SMALL.pass_seconds)
    assert train_seconds(standard, SMALL) == pytest.approx(8 * 45_000 * SMALL.pass_seconds)


def test_a_training_that_stops_early_is_short() -> None:
    smoke = SCALES["smoke"]
    assert train_seconds(network("standard", smoke, 0).recipe, smoke) == pytest.approx(
        30 * 32 * smoke.pass_seconds
    )


def test_every_objective_has_an_estimate_of_its_own() -> None:
    names = {network(name, scale, 0).recipe.objective["name"] for name in NAMES for scale in SCALES.values()}
    for name in names:
        assert training_passes({"name": name, "steps": 10}) != training_passes({"name": "new", "steps": 10})


def test_attacks_take_as_long_as_their_numbers_say() -> None:
    recipe = network("adv", SMALL, 0).recipe

    def work(measurement: Measurement) -> float:
        return measure_seconds(measurement, 500, recipe, SMALL) - START_UP

    def seconds(**options: object) -> float:
        return work(Measurement("accuracy", options))

    assert seconds(attack="pgd", steps=20, restarts=50) == pytest.approx(seconds(attack="pgd", steps=1000))
    assert seconds(attack="apgd", steps=100, targets=9) == pytest.approx(
        9 * seconds(attack="apgd", steps=100)
    )
    assert seconds(attack="square", queries=5000) < seconds(attack="pgd", steps=5000)
    assert work(Measurement("points", {"steps": 20})) == pytest.approx(20 * work(Measurement("clean")))


def test_costs_of_a_tiny_network_take_seconds_and_those_of_a_large_one_minutes() -> None:
    def seconds(scale: str) -> float:
        rows = text_tables.cost_rows(SCALES[scale])
        asked = [one for row in rows for one in row.columns.values()]
        return sum(measure_seconds(one, 0, None, SCALES[scale]) for one in asked)

    assert seconds("smoke") < 120 < seconds("small") < 600 < seconds("paper")
