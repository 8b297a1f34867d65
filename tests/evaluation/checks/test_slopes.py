from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from soar import losses
from soar.evaluation.checks.slopes import gradient_numbers, is_lost, rounding, slopes
from soar.evaluation.target import Target
from soar.model_state import placement
from soar.threat import L2, Linf, Threat
from tests.evaluation.checks.made import Behind, Linear, images, rounded

BALL = Linf("0.05")


def right(model: nn.Module, count: int = 40) -> tuple[Tensor, Tensor]:
    x = images(count).to(placement(model)[1])
    with torch.no_grad():
        return x, model(x).argmax(dim=1)


def test_slopes_of_a_linear_model_are_those_of_the_formula() -> None:
    """The cross-entropy has slope (p - e_y) W, the margin W_i - W_y with i the best wrong class."""
    model = Linear().double()
    x, y = right(model)
    logits, (ce, margin) = slopes(model, x, y, losses.cross_entropy, losses.margin)
    w = model.weight.detach().flatten(1)
    expected = (logits.softmax(dim=1) - torch.nn.functional.one_hot(y, 3)) @ w
    torch.testing.assert_close(ce.flatten(1), expected)
    best = logits.scatter(1, y[:, None], -torch.inf).argmax(dim=1)
    torch.testing.assert_close(margin.flatten(1), w[best] - w[y])


@pytest.mark.parametrize("threat", [Linf("0.05"), L2("0.3")])
def test_a_slope_is_lost_where_the_ball_changes_the_loss_by_less_than_its_last_digit(threat: Threat) -> None:
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


def test_a_linear_model_has_slopes_everywhere() -> None:
    found = measured(Linear())
    for name in ("zero", "vanishing", "saturated", "only_margin", "neither"):
        assert found[name] == 0
    assert found["entries"] == 1 and found["examples"] == 40


def test_large_logits_saturate_the_softmax_and_leave_the_margin_its_slope() -> None:
    """At 1e4 times the logits almost every p_y is 1, and the slope underflows to zero in every pixel."""
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


def test_rounding_the_pixels_takes_both_slopes() -> None:
    found = measured(Behind(rounded))
    assert found["zero"] == found["vanishing"] == found["neither"] == 1
    assert found["only_margin"] == found["saturated"] == found["entries"] == 0


def test_a_pixel_without_a_slope_is_no_image_without_one() -> None:
    found = measured(Behind(lambda x: torch.cat([x[..., :3], x[..., 3:].detach()], dim=-1)))
    assert found["entries"] == 0.5 and found["zero"] == 0


def test_a_model_that_cuts_the_graph_has_no_slope() -> None:
    assert measured(Behind(lambda x: x.detach()))["zero"] == 1


def test_a_slope_that_is_not_a_number_counts_as_zero() -> None:
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
