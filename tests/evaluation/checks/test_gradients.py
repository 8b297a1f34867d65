from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn

from soar.evaluation.checks import gradients
from soar.evaluation.checks.shared import SharedAttacks
from soar.evaluation.checks.slopes import GradientNumbers
from tests.evaluation.checks.made import Behind, Linear, all_wrong, rounded, shared

GOOD = GradientNumbers(
    examples=500,
    precision="float32",
    zero=0.0,
    vanishing=0.0,
    saturated=0.0,
    only_margin=0.0,
    neither=0.0,
    entries=1.0,
    confidence_clean=0.9,
    confidence_clean_std=0.1,
    confidence_random=0.9,
    confidence_random_std=0.1,
    confidence_pgd1=0.8,
    confidence_pgd1_std=0.1,
)


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_a_linear_model_is_sound(norm: str) -> None:
    found = gradients.examine(shared(Linear(), norm=norm))
    assert found.finding == "sound" and found.excess == 0 and found.advice == ""
    assert found.numbers["examples"] == 80


def test_a_saturated_model_is_masked_by_its_loss() -> None:
    found = gradients.examine(shared(Linear(factor=1e4)))
    assert found.finding == "masked" and "the loss stops attacks" in found.sentence
    assert "standard" in found.advice and found.excess > 1


def test_a_rounding_model_is_masked_by_itself() -> None:
    found = gradients.examine(shared(Behind(rounded)))
    assert found.finding == "masked" and "the model itself hides it" in found.sentence
    assert "square" in found.advice


@pytest.mark.parametrize(
    ("changes", "finding"),
    [
        ({}, "sound"),
        ({"zero": 0.01, "vanishing": 0.01}, "sound"),
        ({"zero": 0.03, "vanishing": 0.03}, "suspicious"),
        ({"zero": 0.25, "vanishing": 0.25}, "masked"),
        ({"saturated": 0.05}, "sound"),
        ({"saturated": 0.15}, "suspicious"),
        ({"saturated": 1.0}, "suspicious"),
        ({"vanishing": 0.15}, "suspicious"),
        ({"vanishing": 1.0, "only_margin": 1.0}, "suspicious"),
        ({"confidence_clean": 1.0, "confidence_random": 1.0, "confidence_pgd1": 1.0}, "sound"),
        ({"zero": 0.25, "vanishing": 0.25, "examples": 4}, "suspicious"),
    ],
)
def test_the_rule(changes: dict[str, float], finding: str) -> None:
    found = gradients.judge(replace(GOOD, **changes))  # type: ignore[arg-type]
    assert found.finding == finding
    assert (found.excess >= 1) == (finding != "sound")
    assert bool(found.advice) == (finding != "sound")


def test_the_sentence_names_what_is_wrong() -> None:
    said = gradients.judge(replace(GOOD, saturated=0.63, vanishing=0.5)).sentence
    assert said == (
        "63.0% of the softmaxes are saturated in float32, so attacks on cross-entropy see next to no slope"
        " there."
    )
    said = gradients.judge(replace(GOOD, saturated=0.1, vanishing=0.5, neither=0.5)).sentence
    assert said.startswith("The slope of the cross-entropy is lost in rounding on 50.0% of the images; so is")


def test_only_images_that_are_classified_right_are_looked_at() -> None:
    whole = shared(Linear()).target
    labels = torch.where(torch.arange(80) < 30, whole.labels, (whole.labels + 1) % 3)
    some = replace(whole, data=(whole.images, labels))
    assert gradients.examine(SharedAttacks(target=some)).numbers["examples"] == 30


def test_without_a_right_image_there_is_nothing_to_look_at() -> None:
    found = gradients.examine(all_wrong())
    assert found.finding == "inconclusive" and "no clean image" in found.sentence and found.numbers == {}


class Gray(nn.Module):
    """Logits in half precision behind a model in float32."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = Linear(factor=10.0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.linear(x).to(torch.bfloat16)
        return logits


def test_the_precision_is_that_of_the_logits() -> None:
    found = gradients.examine(shared(Gray()))
    assert found.numbers["precision"] == "bfloat16" and found.finding == "suspicious"
