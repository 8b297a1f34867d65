from __future__ import annotations

from typing import Any

import pytest

from soar.attacks import Attack
from soar.evaluation.checks import losses
from soar.evaluation.checks.shared import ON_CROSS_ENTROPY, ON_MARGINS
from soar.threat import Threat
from tests.evaluation.checks.made import Linear, all_wrong, shared, told


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_on_a_linear_model_all_attacks_are_exact(norm: str) -> None:
    found = losses.examine(shared(Linear(classes=2), norm=norm))
    assert found.finding == "sound" and found.advice == ""
    assert found.numbers["all on margins"] == 0.5 == found.numbers["all on cross-entropy"]


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_margins_are_exact_with_three_classes_too(norm: str) -> None:
    """Cross-entropy flees from all other classes at once, so it misses the nearest now and then."""
    found = losses.examine(shared(Linear(), norm=norm))
    assert found.finding == "sound" and found.numbers["all on margins"] == 0.5
    assert found.numbers["all on cross-entropy"] == pytest.approx(0.5, abs=0.05)


def test_a_saturated_softmax_hides_the_way_from_cross_entropy_only() -> None:
    """In float32 the slope of the cross-entropy is exactly zero where p_y rounds to 1."""
    found = losses.examine(shared(Linear(factor=1e4)))
    assert found.finding == "masked" and "not the network" in found.sentence
    assert found.numbers["all on margins"] == 0.5
    assert found.numbers["PGD-20"] > 0.8  # type: ignore[operator]
    assert "--attacks standard" in found.advice


def _leave(entropy: float, margins: float) -> Any:
    def leaves(attack: Attack[Any], threat: Threat, temperature: float) -> float:
        return entropy if attack in ON_CROSS_ENTROPY else margins

    return leaves


@pytest.mark.parametrize(
    ("entropy", "margins", "finding"),
    [
        (0.56, 0.18, "masked"),  # the SOAR of the paper
        (0.5137, 0.0097, "masked"),  # the same on SVHN
        (0.4157, 0.3899, "sound"),  # adversarial training
        (0.4501, 0.3922, "sound"),  # MART in the paper
        (0.45, 0.36, "suspicious"),  # MART elsewhere
        (0.40, 0.43, "sound"),  # margins may well find less
    ],
)
def test_the_rule_on_numbers_of_known_networks(entropy: float, margins: float, finding: str) -> None:
    found = losses.examine(told(_leave(entropy, margins), count=1000))
    assert found.finding == finding
    assert found.numbers["difference"] == pytest.approx(entropy - margins, abs=0.001)
    assert found.numbers["low"] < found.numbers["difference"] < found.numbers["high"]  # type: ignore[operator]


def test_both_sides_have_the_same_budget() -> None:
    def budget(several: Any) -> int:
        return sum(attack.budget * attack.entries(10) for attack in several)

    assert budget(ON_CROSS_ENTROPY) == budget(ON_MARGINS)


def test_the_sentence_names_what_each_side_leaves() -> None:
    found = losses.examine(told(_leave(0.56, 0.18)))
    assert "18.0%" in found.sentence and "56.0%" in found.sentence
    assert found.excess == pytest.approx(0.38 / 0.06, abs=0.01)  # less than half is left


def test_where_nothing_is_right_nothing_follows() -> None:
    found = losses.examine(all_wrong())
    assert found.finding == "inconclusive" and "Could not be checked" in found.sentence
