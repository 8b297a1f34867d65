from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from soar.attacks import Attack, Square, Transfer
from soar.evaluation.checks import APGD_DLR, ON_CROSS_ENTROPY, ON_MARGINS, comparisons
from soar.losses import margin
from soar.threat import Threat
from tests.evaluation.checks.made import Behind, Linear, Wall, rounded, shared, told


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_on_a_linear_model_all_attacks_are_exact(norm: str) -> None:
    found = comparisons.examine_losses(shared(Linear(classes=2), norm=norm))
    assert found.finding == "sound" and found.advice == ()
    assert found.numbers["all on margins"] == 0.5 == found.numbers["all on cross-entropy"]


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_margins_are_exact_with_three_classes_too(norm: str) -> None:
    """Cross-entropy flees from all other classes at once, so it misses the nearest now and then."""
    found = comparisons.examine_losses(shared(Linear(), norm=norm))
    assert found.finding == "sound" and found.numbers["all on margins"] == 0.5
    assert found.numbers["all on cross-entropy"] == pytest.approx(0.5, abs=0.05)


def test_a_saturated_softmax_hides_the_way_from_cross_entropy_only() -> None:
    """In float32 the gradient of the cross-entropy is exactly zero where p_y rounds to 1."""
    found = comparisons.examine_losses(shared(Linear(factor=1e4)))
    assert found.finding == "masked" and "not the network" in found.sentence
    assert found.numbers["all on margins"] == 0.5
    assert found.numbers["PGD-20"] > 0.8  # type: ignore[operator]
    assert found.advice == ("scaling", "autoattack")


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
    found = comparisons.examine_losses(told(_leave(entropy, margins), count=1000))
    assert found.finding == finding
    assert found.numbers["difference"] == pytest.approx(entropy - margins, abs=0.001)
    assert found.numbers["low"] < found.numbers["difference"] < found.numbers["high"]  # type: ignore[operator]


def test_both_sides_have_the_same_budget() -> None:
    def budget(several: Any) -> int:
        return sum(attack.budget * attack.entries(10) for attack in several)

    assert budget(ON_CROSS_ENTROPY) == budget(ON_MARGINS)


def test_where_only_targets_help_the_loss_is_not_blamed() -> None:
    def leaves(attack: Attack[Any], threat: Threat, temperature: float) -> float:
        return 0.2 if attack == APGD_DLR else 0.5

    found = comparisons.examine_losses(told(leaves))
    assert found.finding == "masked" and found.sentence == (
        "Attacks on margins leave 20.0% where those on the cross-entropy leave 50.0%, and PGD-20 margin"
        " leaves 50.0%: only an attack with targets finds the way."
    )
    assert found.advice[0] == "adaptive"
    gain = comparisons.judge_loss_gain(told(leaves))
    assert gain.finding == "sound"


def test_the_sentence_names_what_each_side_leaves() -> None:
    found = comparisons.examine_losses(told(_leave(0.56, 0.18)))
    assert "18.0%" in found.sentence and "56.0%" in found.sentence
    assert found.excess == pytest.approx(0.38 / 0.06, abs=0.01)  # less than half is left


def test_softening_brings_the_way_back() -> None:
    """A linear model times 1e4 is the same model; only the softmax of float32 cannot tell."""
    found = comparisons.examine_temperature(shared(Linear(factor=1e4, classes=2)))
    assert found.finding == "masked" and "not the network, was" in found.sentence
    assert found.numbers["PGD-20"] > 0.8  # type: ignore[operator]
    assert found.numbers["PGD-20 softened"] == 0.5


def test_a_model_without_saturation_needs_nothing_undone() -> None:
    under = shared(Linear())
    found = comparisons.examine_temperature(under)
    assert found.finding == "sound" and found.numbers["temperature"] == 1
    assert found.numbers["difference"] == 0 and "no saturation had to be undone" in found.sentence


def test_the_temperature_follows_the_factor() -> None:
    gap, _ = comparisons.softening(shared(Linear()).target)
    assert gap < comparisons.GAP
    for factor in (10, 1000):
        scaled, chosen = comparisons.softening(shared(Linear(factor)).target)
        assert scaled == pytest.approx(factor * gap, rel=1e-5)
        assert chosen == pytest.approx(max(1, factor * gap / comparisons.GAP), rel=1e-5)


def test_only_correct_predictions_count_for_the_gap() -> None:
    under = shared(Linear(10)).target
    labels = under.labels.clone()
    labels[40:] = under.logits[40:].argmin(dim=1)
    under = replace(under, data=(under.x[:], labels))
    expected = (-margin(under.logits, labels))[:40].median()
    assert comparisons.softening(under)[0] == pytest.approx(float(expected))


@pytest.mark.parametrize(
    ("before", "after", "finding"),
    [(0.56, 0.2, "masked"), (0.5, 0.41, "suspicious"), (0.5, 0.47, "sound"), (0.5, 0.52, "sound")],
)
def test_the_rule_of_softening(before: float, after: float, finding: str) -> None:
    def leaves(attack: Attack[Any], threat: Threat, temperature: float) -> float:
        return before if temperature == 1 else after

    found = comparisons.examine_temperature(told(leaves, factor=100))
    assert found.finding == finding
    assert found.numbers["difference"] == pytest.approx(before - after)
    assert bool(found.advice) == (finding != "sound")


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_nothing_beats_the_gradients_of_a_linear_model(norm: str) -> None:
    found = comparisons.examine_black_box(
        shared(Linear(classes=2), norm=norm, sources={"itself": Linear(classes=2)}),
        square=Square(queries=200),
    )
    assert found.finding == "sound" and found.excess == 0
    assert found.numbers["white-box"] == 0.5
    assert found.numbers["PGD-20 from itself"] == 0.5
    assert found.advice == () and "No other network" not in found.sentence


def test_square_breaks_what_rounding_hides() -> None:
    found = comparisons.examine_black_box(shared(Behind(rounded), broken=0.9), square=Square(queries=200))
    assert found.finding == "masked" and "Square-200" in found.sentence
    assert found.numbers["white-box"] > 0.75  # type: ignore[operator]
    assert found.numbers["Square-200"] < 0.6  # type: ignore[operator]


def test_points_of_another_network_pass_a_wall() -> None:
    """The wall turns every search back; who comes from elsewhere need not climb it."""
    under = shared(Wall(), sources={"linear": Linear(classes=2)})
    found = comparisons.examine_black_box(under, square=Square(queries=50))
    assert found.finding == "masked" and "from linear" in found.sentence
    assert found.numbers["PGD-20 from linear"] == 0.5


def test_without_another_network_it_says_so() -> None:
    found = comparisons.examine_black_box(told(_white_and_square(white=0.5, square=0.6)))
    assert found.finding == "sound"
    assert "No other network was given" in found.sentence and found.advice == ("transfer",)


def _white_and_square(*, white: float, square: float, transfer: float = 1.0) -> Any:
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
def test_the_rule_of_black_boxes(white: float, square: float, transfer: float, finding: str) -> None:
    leaves = _white_and_square(white=white, square=square, transfer=transfer)
    found = comparisons.examine_black_box(told(leaves, count=1000, sources={"other": Linear()}))
    assert found.finding == finding
    assert found.numbers["difference"] == pytest.approx(max(0, white - min(square, transfer)))


def test_the_queries_are_those_asked_for() -> None:
    found = comparisons.examine_black_box(
        told(_white_and_square(white=0.5, square=0.5)), square=Square(queries=77)
    )
    assert "Square-77" in found.numbers
    assert (
        "Square-1000" in comparisons.examine_black_box(told(_white_and_square(white=0.5, square=0.5))).numbers
    )
