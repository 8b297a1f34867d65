from __future__ import annotations

from typing import Any

import pytest

from soar.attacks import Attack, Square, Transfer
from soar.evaluation.checks import black_box
from soar.threat import Threat
from tests.evaluation.checks.made import Behind, Linear, Wall, all_wrong, rounded, shared, told


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_nothing_beats_the_gradients_of_a_linear_model(norm: str) -> None:
    found = black_box.examine(
        shared(Linear(classes=2), norm=norm, sources={"itself": Linear(classes=2)}), queries=200
    )
    assert found.finding == "sound" and found.excess == 0
    assert found.numbers["white-box"] == 0.5
    assert found.numbers["PGD-20 from itself"] == 0.5
    assert found.advice == "" and "No other network" not in found.sentence


def test_square_breaks_what_rounding_hides() -> None:
    found = black_box.examine(shared(Behind(rounded), broken=0.9), queries=200)
    assert found.finding == "masked" and "Square-200" in found.sentence
    assert found.numbers["white-box"] > 0.75  # type: ignore[operator]
    assert found.numbers["Square-200"] < 0.6  # type: ignore[operator]


def test_points_of_another_network_pass_a_wall() -> None:
    """The wall turns every search back; who comes from elsewhere need not climb it."""
    found = black_box.examine(shared(Wall(), sources={"linear": Linear(classes=2)}), queries=50)
    assert found.finding == "masked" and "from linear" in found.sentence
    assert found.numbers["PGD-20 from linear"] == 0.5


def test_without_another_network_it_says_so() -> None:
    found = black_box.examine(told(_leave(white=0.5, square=0.6)))
    assert found.finding == "sound"
    assert "No other network was given" in found.sentence and "--source" in found.advice


def _leave(*, white: float, square: float, transfer: float = 1.0) -> Any:
    def leaves(attack: Attack[Any], threat: Threat, temperature: float) -> float:
        if isinstance(attack, Transfer):
            return transfer
        return square if isinstance(attack, Square) else white

    return leaves


@pytest.mark.parametrize(
    ("white", "square", "transfer", "finding"),
    [
        (0.5, 0.6, 0.7, "sound"),
        (0.5, 0.498, 0.7, "sound"),
        (0.5, 0.48, 0.7, "suspicious"),
        (0.5, 0.4, 0.7, "masked"),
        (0.9, 0.9, 0.03, "masked"),  # the paper's SOAR with a zero start
    ],
)
def test_the_rule(white: float, square: float, transfer: float, finding: str) -> None:
    leaves = _leave(white=white, square=square, transfer=transfer)
    found = black_box.examine(told(leaves, count=1000, sources={"other": Linear()}))
    assert found.finding == finding
    assert found.numbers["difference"] == pytest.approx(max(0, white - min(square, transfer)))


def test_the_queries_are_those_asked_for() -> None:
    found = black_box.examine(told(_leave(white=0.5, square=0.5)), queries=77)
    assert "Square-77" in found.numbers
    assert "Square-1000" in black_box.examine(told(_leave(white=0.5, square=0.5))).numbers


def test_where_nothing_is_right_nothing_follows() -> None:
    found = black_box.examine(all_wrong())
    assert found.finding == "inconclusive" and "Could not be checked" in found.sentence
