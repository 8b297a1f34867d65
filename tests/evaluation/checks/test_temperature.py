from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from soar.attacks import Attack
from soar.evaluation.checks import temperature
from soar.losses import margin
from soar.threat import Threat
from tests.evaluation.checks.made import Linear, all_wrong, shared, told


def test_softening_brings_the_way_back() -> None:
    """A linear model times 1e4 is the same model; only the softmax of float32 cannot tell."""
    found = temperature.examine(shared(Linear(factor=1e4, classes=2)))
    assert found.finding == "masked" and "not the network, was" in found.sentence
    assert found.numbers["PGD-20"] > 0.8  # type: ignore[operator]
    assert found.numbers["PGD-20 softened"] == 0.5


def test_a_model_without_saturation_needs_nothing_undone() -> None:
    under = shared(Linear())
    found = temperature.examine(under)
    assert found.finding == "sound" and found.numbers["temperature"] == 1
    assert found.numbers["difference"] == 0 and "no saturation had to be undone" in found.sentence


def test_the_temperature_follows_the_factor() -> None:
    gap, _ = temperature.softening(shared(Linear()).target)
    assert gap < temperature.GAP
    for factor in (10, 1000):
        scaled, chosen = temperature.softening(shared(Linear(factor)).target)
        assert scaled == pytest.approx(factor * gap, rel=1e-5)
        assert chosen == pytest.approx(max(1, factor * gap / temperature.GAP), rel=1e-5)


def test_only_right_answers_count_for_the_gap() -> None:
    under = shared(Linear(10)).target
    labels = under.labels.clone()
    labels[40:] = under.logits[40:].argmin(dim=1)
    under = replace(under, data=(under.x, labels))
    expected = (-margin(under.logits, labels))[:40].median()
    assert temperature.softening(under)[0] == pytest.approx(float(expected))


@pytest.mark.parametrize(
    ("before", "after", "finding"),
    [(0.56, 0.2, "masked"), (0.5, 0.41, "suspicious"), (0.5, 0.47, "sound"), (0.5, 0.52, "sound")],
)
def test_the_rule(before: float, after: float, finding: str) -> None:
    def leaves(attack: Attack[Any], threat: Threat, temperature: float) -> float:
        return before if temperature == 1 else after

    found = temperature.examine(told(leaves, factor=100))
    assert found.finding == finding
    assert found.numbers["difference"] == pytest.approx(before - after)
    assert bool(found.advice) == (finding != "sound")


def test_where_nothing_is_right_nothing_follows() -> None:
    found = temperature.examine(all_wrong())
    assert found.finding == "inconclusive" and "Could not be checked" in found.sentence
