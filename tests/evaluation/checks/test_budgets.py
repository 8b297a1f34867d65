from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from soar.attacks import PGD, Attack
from soar.evaluation.checks import SharedAttacks, budgets
from soar.evaluation.target import Target
from soar.threat import L2, Linf, Threat
from tests.evaluation.checks.made import Behind, Linear, Wall, images, rounded, shared, told


@pytest.mark.parametrize("norm", ["linf", "l2", "l1"])
def test_on_a_linear_model_work_adds_nothing_and_room_everything(norm: str) -> None:
    found = budgets.examine(shared(Linear(classes=2), norm=norm))
    assert found.finding == "sound" and found.advice == ()
    # A sparse step moves more pixels than the one that would be best.
    half = pytest.approx(0.5, abs=0.03 if norm == "l1" else 0)
    assert found.numbers["PGD-20"] == half
    assert found.numbers["PGD-100"] == half
    assert found.numbers["PGD-50 without a limit"] == 0


def test_where_gradients_lead_astray_even_an_attack_without_a_limit_fails() -> None:
    found = budgets.examine(shared(Wall()))
    assert found.finding == "masked" and "without a limit" in found.sentence
    assert found.numbers["PGD-50 without a limit"] > 0.5  # type: ignore[operator]
    assert found.advice[0] == "straight through"


@pytest.mark.parametrize("model", [Linear(factor=1e4), Behind(rounded)], ids=["saturated", "rounded"])
def test_an_attack_without_a_limit_proves_nothing_where_one_loss_saturates_or_no_gradient_is(
    model: nn.Module,
) -> None:
    """The former is for the check of losses to judge, the latter for that of gradients."""
    found = budgets.examine(shared(model))
    assert found.finding == "sound" and found.numbers["PGD-50 without a limit"] == 0


def gray_outside(x: Tensor) -> Tensor:
    """Pass on images of low contrast, and make all others gray."""
    contrast = (x - 0.5).flatten(1).abs().amax(dim=1)
    return torch.where(contrast[:, None, None, None] < 0.25, x, 0.5)


def test_a_larger_ball_that_holds_less_is_told() -> None:
    """Gray images have one output and no gradient, so an attack that starts there stays there."""
    model = Behind(gray_outside)
    x = 0.5 + (images(80) - 0.5) / 8
    with torch.no_grad():
        labels = model(x).argmax(dim=1)
    under = SharedAttacks(target=Target(model=model, data=(x, labels), threat=Linf(0.15)))
    found = budgets.examine(under)
    assert found.finding == "masked" and "with more room" in found.sentence
    assert found.numbers["PGD-20"] == 0
    assert found.numbers["PGD-20 at eps 0.3 rise"] > 0.1  # type: ignore[operator]


def _leave(
    shares: dict[str, float], default: float = 0.5, larger: float = 0.0, everything: float = 0.0
) -> Any:
    def leaves(attack: Attack[Any], threat: Threat, temperature: float) -> float:
        if threat.radius == 1:
            return everything
        return larger if threat != Linf("8/255") else shares.get(attack.label, default)

    return leaves


@pytest.mark.parametrize(
    ("leaves", "finding", "words"),
    [
        (_leave({}), "sound", "PGD-100 50.0%"),
        (_leave({"PGD-100": 0.48, "PGD-20 x5": 0.47}), "sound", "PGD-50 without a limit 0.0%"),
        (_leave({"PGD-100": 0.4}), "suspicious", "PGD-100 leaves 40.0%"),
        (_leave({"PGD-20 x5": 0.1}), "suspicious", "PGD-20 x5 leaves 10.0%"),
        (_leave({"PGD-20 x5": 0.55}), "suspicious", "chance decides"),
        (_leave({"PGD-100": 0.7}), "masked", "chance decides"),
        (_leave({}, larger=0.55), "suspicious", "eps 16/255 leaves 55.0%"),
        (_leave({}, larger=0.7), "masked", "mislead"),
        (_leave({}, everything=0.02), "suspicious", "may choose any image"),
        (_leave({"PGD-100": 0.4}, everything=0.1), "masked", "leaves 10.0%"),
    ],
)
def test_the_rules(leaves: Any, finding: str, words: str) -> None:
    found = budgets.examine(told(leaves, count=400))
    assert found.finding == finding and words in found.sentence
    assert bool(found.advice) == (finding != "sound")


def test_each_radius_is_compared_with_the_one_before_it() -> None:
    def leaves(attack: Attack[Any], threat: Threat, temperature: float) -> float:
        return {"8/255": 0.5, "16/255": 0.1, "32/255": 0.3}.get(str(threat).split()[1], 0.0)

    found = budgets.examine(told(leaves))
    assert found.finding == "masked" and "at eps 16/255 it left 10.0%" in found.sentence
    assert found.numbers["PGD-20 at eps 32/255 rise"] == pytest.approx(0.2)


def test_a_radius_beyond_the_pixel_range_is_left_out() -> None:
    under = told(_leave({}))
    under.target = replace(under.target, threat=Linf(0.3))
    found = budgets.examine(under)
    assert "PGD-20 at eps 0.6" in found.numbers and "PGD-20 at eps 1.2" not in found.numbers


def test_the_attack_without_a_limit_can_reach_every_image() -> None:
    """All of its steps together are longer than the widest distance between two images."""
    seen: dict[str, tuple[PGD, Threat]] = {}

    def leaves(attack: Attack[Any], threat: Threat, temperature: float) -> float:
        assert isinstance(attack, PGD)
        seen[attack.label] = attack, threat
        return 0.0

    for given, widest in ((Linf("8/255"), 1.0), (L2(0.5), 6.0)):
        under = told(leaves)
        under.target = replace(under.target, threat=given)
        budgets.examine(under)
        attack, threat = seen["PGD-50"]
        assert threat.radius >= widest and attack.steps * attack.step_length(threat.eps) >= widest
        assert not attack.random_start


def test_a_model_that_always_says_the_same_need_not_break() -> None:
    class Same(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return 0 * x.flatten(1)[:, :2] + torch.tensor([1.0, 0.0])

    under = SharedAttacks(
        target=Target(model=Same(), data=(images(20), torch.zeros(20, dtype=torch.int64)), threat=Linf(0.1))
    )
    found = budgets.examine(under)
    assert found.finding == "sound" and found.numbers["PGD-20"] == 1
