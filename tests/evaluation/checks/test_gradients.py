from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from soar import losses
from soar.evaluation.checks import SharedAttacks, gradients
from soar.evaluation.checks.gradients import (
    GradientNumbers,
    gradient_numbers,
    input_gradients,
    is_lost,
    rounding,
)
from soar.evaluation.checks.lost import lost_in
from soar.evaluation.target import Target
from soar.evaluation.thresholds import Judgment
from soar.model_state import placement
from soar.threat import L2, Linf, Threat
from tests.evaluation.checks.made import Behind, Linear, images, rounded, shared

GOOD = GradientNumbers(
    examples=500,
    precision="float32",
    zero=0.0,
    margin_zero=0.0,
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
GAIN, NOTHING = Judgment("masked", 2.0), Judgment("sound", 0.1)


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_a_linear_model_is_sound(norm: str) -> None:
    found = gradients.examine(shared(Linear(), norm=norm))
    assert found.finding == "sound" and found.excess == 0 and found.advice == ()
    assert found.numbers["examples"] == 80


def test_a_saturated_model_is_masked_by_its_loss() -> None:
    found = gradients.examine(shared(Linear(factor=1e4)))
    assert found.finding == "masked" and "the loss stops attacks" in found.sentence
    assert found.advice == ("scaling", "autoattack") and found.excess > 1


def test_a_rounding_model_is_masked_by_itself() -> None:
    found = gradients.examine(shared(Behind(rounded)))
    assert found.finding == "masked" and "the model hides it" in found.sentence
    assert found.advice[0] == "straight through" and "square" in found.advice


def thresholded(x: Tensor) -> Tensor:
    """Keep one bit per pixel: where no pixel is near 0.5, the model is constant around every image."""
    return (x > 0.5).to(x)


def far_from_half(count: int = 80) -> Tensor:
    return images(count) + 0.2 * (images(count) - 0.5).sign()


def test_a_model_that_is_constant_around_every_image_is_not_called_masked() -> None:
    model, x = Behind(thresholded), far_from_half(20)
    target = Target(model=model, data=(x, model(x).argmax(dim=1).detach()), threat=Linf("0.1"))
    found = gradients.examine(SharedAttacks(target=target))
    assert found.finding == "inconclusive" and "gradient attacks say nothing here" in found.sentence
    assert found.numbers["margin_zero"] == 1


class Layered(nn.Sequential):
    """Rounded pixels, as a module of its own within another one."""

    def __init__(self, change: Callable[[Tensor], Tensor]) -> None:
        class Change(nn.Module):
            def forward(self, x: Tensor) -> Tensor:
                return change(x)

        super().__init__(nn.Sequential(nn.Identity(), Change()), Linear())


@pytest.mark.parametrize(
    "change", [rounded, torch.Tensor.detach, thresholded], ids=["rounded", "detached", "thresholded"]
)
def test_the_module_that_loses_the_gradient_is_named(change: Callable[[Tensor], Tensor]) -> None:
    assert lost_in(shared(Layered(change), count=10).target) == "0.1"


@pytest.mark.parametrize("model", [Linear(), Behind(rounded), Behind(torch.Tensor.detach), Linear(1e4)])
def test_no_module_is_named_where_none_loses_the_gradient(model: nn.Module) -> None:
    assert lost_in(shared(model, count=10).target) == ""
    assert not any(one._forward_hooks or one._forward_pre_hooks for one in model.modules())


@pytest.mark.parametrize(
    ("changes", "finding"),
    [
        ({}, "sound"),
        ({"zero": 0.01, "vanishing": 0.01}, "sound"),
        ({"zero": 0.03, "vanishing": 0.03}, "suspicious"),
        ({"zero": 0.25, "vanishing": 0.25}, "masked"),
        ({"margin_zero": 0.01}, "sound"),
        ({"margin_zero": 0.03}, "suspicious"),
        ({"margin_zero": 0.25}, "masked"),
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
    numbers = replace(GOOD, **changes)  # type: ignore[arg-type]
    found = gradients.judge(numbers, gain=GAIN, way=GAIN)
    assert found.finding == finding
    assert (found.excess >= 1) == (finding != "sound")
    assert bool(found.advice) == (finding != "sound")


@pytest.mark.parametrize("changes", [{"saturated": 1.0}, {"vanishing": 1.0}, {"zero": 1.0, "vanishing": 1.0}])
def test_what_the_loss_loses_counts_only_where_another_loss_gains(changes: dict[str, float]) -> None:
    numbers = replace(GOOD, **changes)  # type: ignore[arg-type]
    found = gradients.judge(numbers, gain=NOTHING, way=None)
    assert found.finding == "sound" and "on other losses find no more" in found.sentence
    unknown = gradients.judge(numbers, gain=None, way=None)
    assert unknown.finding == "inconclusive" and "PGD on both losses would show" in unknown.sentence


@pytest.mark.parametrize(("way", "words"), [(NOTHING, "no attack without them breaks"), (None, "was run")])
def test_a_gradient_of_zero_counts_only_where_something_is_found_without(
    way: Judgment | None, words: str
) -> None:
    found = gradients.judge(replace(GOOD, margin_zero=0.9), gain=NOTHING, way=way, module="body.round")
    assert found.finding == "inconclusive" and words in found.sentence and "'body.round'" in found.sentence
    assert found.numbers["lost in module"] == "body.round"


def test_the_sentence_names_what_is_wrong() -> None:
    sentence = gradients.judge(replace(GOOD, saturated=0.63, vanishing=0.5), gain=GAIN, way=None).sentence
    assert sentence == (
        "63.0% of the softmaxes are saturated in float32, so attacks on the cross-entropy see next to no"
        " gradient there, and other losses find more: the loss stops attacks and not the model."
    )
    sentence = gradients.judge(replace(GOOD, saturated=0.1, vanishing=0.5), gain=GAIN, way=None).sentence
    assert sentence.startswith(
        "The gradient of the cross-entropy is lost in rounding on 50.0% of the images, and"
    )


def test_only_images_that_are_classified_right_are_looked_at() -> None:
    whole = shared(Linear()).target
    labels = torch.where(torch.arange(80) < 30, whole.labels, (whole.labels + 1) % 3)
    some = replace(whole, data=(whole.images, labels))
    assert gradients.examine(SharedAttacks(target=some)).numbers["examples"] == 30


class Gray(nn.Module):
    """Logits in half precision behind a model in float32."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = Linear(factor=10.0)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.linear(x).to(torch.bfloat16)
        return logits


def test_the_precision_is_that_of_the_logits() -> None:
    found = gradients.examine(shared(Gray()))
    assert found.numbers["precision"] == "bfloat16" and found.numbers["saturated"] > 0.1  # type: ignore[operator]


BALL = Linf("0.05")


def right(model: nn.Module, count: int = 40) -> tuple[Tensor, Tensor]:
    x = images(count).to(placement(model)[1])
    with torch.no_grad():
        return x, model(x).argmax(dim=1)


def test_gradients_of_a_linear_model_are_those_of_the_formula() -> None:
    """The cross-entropy has gradient (p - e_y) W, the margin W_i - W_y with i the best wrong class."""
    model = Linear().double()
    x, y = right(model)
    logits, (ce, margin) = input_gradients(model, x, y, losses.cross_entropy, losses.margin)
    w = model.weight.detach().flatten(1)
    expected = (logits.softmax(dim=1) - torch.nn.functional.one_hot(y, 3)) @ w
    torch.testing.assert_close(ce.flatten(1), expected)
    best = logits.scatter(1, y[:, None], -torch.inf).argmax(dim=1)
    torch.testing.assert_close(margin.flatten(1), w[best] - w[y])


@pytest.mark.parametrize("threat", [Linf("0.05"), L2("0.3")])
def test_a_gradient_is_lost_where_the_loss_changes_by_less_than_its_last_digit(
    threat: Threat,
) -> None:
    logits = torch.tensor([[8.0, -3.0], [0.1, 0.2]])
    eps = torch.finfo(torch.float32).eps
    assert rounding(logits).tolist() == [8 * eps, eps]
    direction = images(2)
    unit = direction / (threat.radius * threat.dual_norm(direction)).reshape(-1, 1, 1, 1)
    assert is_lost(7.9 * eps * unit, logits, threat).tolist() == [True, False]
    assert is_lost(8.1 * eps * unit, logits, threat).tolist() == [False, False]
    assert is_lost(0 * unit, logits, threat).all()


def measured(model: nn.Module, count: int = 40, threat: Threat = BALL, **options: Any) -> dict[str, Any]:
    x, y = right(model, count)
    return vars(gradient_numbers(Target(model=model, data=(x, y), threat=threat, **options)))


def test_a_linear_model_has_gradients_everywhere() -> None:
    found = measured(Linear())
    for name in ("zero", "vanishing", "saturated", "only_margin", "neither"):
        assert found[name] == 0
    assert found["entries"] == 1 and found["examples"] == 40


def test_large_logits_saturate_the_softmax_and_leave_the_margin_its_gradient() -> None:
    """At 1e4 times the logits almost every p_y is 1, and the gradient underflows to zero in every pixel."""
    model = Linear(factor=1e4)
    x, y = right(model)
    found = measured(model)
    gap = -losses.margin(model(x), y).detach()
    # exp(-104) is below the smallest number of float32, and 1 + exp(-17) is 1.
    assert (
        found["zero"] == pytest.approx(float((gap > 104).double().mean()), abs=1e-9) and found["zero"] > 0.9
    )
    assert found["saturated"] == pytest.approx(float((gap > 17).double().mean()), abs=1e-9)
    assert found["only_margin"] == found["vanishing"] >= found["zero"]
    assert found["neither"] == 0
    assert found["confidence_clean"] > 0.99


def test_double_precision_saturates_later() -> None:
    """Half of the distance from 1 to the next number is e^-16.6 in float32 and e^-36.7 in float64."""
    single, double = measured(Linear(factor=40.0)), measured(Linear(factor=40.0).double())
    assert (single["precision"], double["precision"]) == ("float32", "float64")
    assert single["saturated"] > double["saturated"] + 0.1


def test_rounding_the_pixels_takes_both_gradients() -> None:
    found = measured(Behind(rounded))
    assert found["zero"] == found["vanishing"] == found["neither"] == 1
    assert found["only_margin"] == found["saturated"] == found["entries"] == 0


def test_a_pixel_without_a_gradient_is_no_image_without_one() -> None:
    found = measured(Behind(lambda x: torch.cat([x[..., :3], x[..., 3:].detach()], dim=-1)))
    assert found["entries"] == 0.5 and found["zero"] == 0


def test_a_model_that_cuts_the_graph_has_no_gradient() -> None:
    assert measured(Behind(lambda x: x.detach()))["zero"] == 1


def test_a_gradient_that_is_not_a_number_counts_as_zero() -> None:
    def broken(x: Tensor) -> Tensor:
        return x + 0 * (x - x).sqrt()

    assert measured(Behind(broken))["zero"] == 1


def test_confidence_is_that_of_the_softmax_at_the_image_nearby_and_one_step_up() -> None:
    model = Linear()
    x, _ = right(model)
    found = measured(model, threat=Linf("0.001"))
    p = model(x).detach().softmax(dim=1).amax(dim=1).double()
    assert found["confidence_clean"] == pytest.approx(float(p.mean()))
    assert found["confidence_clean_std"] == pytest.approx(float(p.std(correction=0)))
    # No prediction changes in so small a ball, so a step up lowers the largest probability of each image.
    assert found["confidence_pgd1"] < found["confidence_random"]
    assert found["confidence_random"] == pytest.approx(found["confidence_clean"], abs=0.001)


def test_neither_the_batch_size_nor_the_order_matters() -> None:
    whole, parts = measured(Linear()), measured(Linear(), batch_size=7)
    assert parts.pop("precision") == whole.pop("precision")
    assert parts == pytest.approx(whole)
    assert measured(Linear(), seed=1)["confidence_random"] != whole["confidence_random"]


class Counting(nn.Module):
    """A model with dropout, batch norm and a count of its passes."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Flatten(), nn.BatchNorm1d(36), nn.Dropout(), nn.Linear(36, 3))
        self.asked = 0

    def forward(self, x: Tensor) -> Tensor:
        self.asked += len(x)
        logits: Tensor = self.body(x)
        return logits


def test_the_model_is_left_as_it_was_after_three_passes() -> None:
    model, x = Counting(), images(10)
    before = {name: one.clone() for name, one in model.state_dict().items()}
    numbers = torch.get_rng_state()
    gradient_numbers(Target(model=model, data=(x, torch.zeros(10, dtype=torch.int64)), threat=BALL))
    assert model.asked == 30
    assert model.training and all(one.requires_grad and one.grad is None for one in model.parameters())
    assert all(torch.equal(before[name], one) for name, one in model.state_dict().items())
    assert torch.equal(numbers, torch.get_rng_state())
