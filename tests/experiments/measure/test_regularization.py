"""Numbers about the regularizer on models for which they are known."""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn.functional import softplus

from soar import curvature, models, randomness
from soar.errors import UserError
from soar.experiments.measure.regularization import confidence, regularized_losses, relaxation, samples
from soar.objectives import SOAR
from soar.threat import Linf
from tests.experiments.tasks import Constant, Linear, gray, task

OPTIONS = {
    "init": "pgd-1",
    "hvp": "finite-difference",
    "fd_step": 0.5,
    "loss_scale": 1 / 64,
    "penalty_floor": True,
}


@pytest.mark.parametrize("clamp", [None, 0.05])
@pytest.mark.parametrize("count", [1, 3])
def test_it_is_what_the_objective_minimizes(count: int, clamp: float | None) -> None:
    model = models.build("resnet10", seed=0, num_classes=4, image_shape=(1, 8, 8), options={"width": 2})
    x = randomness.uniform(randomness.key(0, torch.arange(6), "test"), (1, 8, 8))
    y, index = torch.arange(6) % 4, torch.arange(6) + 7
    trained = SOAR(model, Linf("8/255"), num_directions=count, max_norm=clamp, seed=3, **OPTIONS)  # type: ignore[arg-type]
    found = regularized_losses(trained, x, y, index, samples=count)
    assert found.shape == (6,)
    assert float(found.mean()) == pytest.approx(float(trained(x, y, index, 0).loss.detach()), rel=1e-5)


def test_a_flat_model_pays_for_the_corner_alone() -> None:
    split = gray(5)
    of = task(Constant(torch.zeros(2)), split, "samples", samples=4, objective=OPTIONS, eps="8/255")
    last = [
        curvature.draw_direction(randomness.key(0, split.indices, f"soar direction {k}", 0), (1, 4, 4)).last
        for k in range(4)
    ]
    factor = (16 * (4 / 255) ** 2 + 1) / 2
    wanted = math.log(2) + factor * float(torch.stack(last).abs().mean())
    found = samples(of)
    assert found.value == pytest.approx(wanted, rel=1e-5)
    assert found.each is not None and float(found.each.mean()) == pytest.approx(wanted, rel=1e-5)


def test_other_products_are_refused() -> None:
    objective = SOAR(Constant(torch.zeros(2)), Linf("8/255"))
    with pytest.raises(UserError, match="got gauss-newton, expected finite-difference"):
        regularized_losses(objective, torch.zeros(1, 1, 4, 4), torch.zeros(1), torch.zeros(1), samples=1)


@pytest.mark.parametrize("at", ["clean", "random", "pgd1"])
def test_a_constant_model_is_equally_sure_everywhere(at: str) -> None:
    model = Constant(torch.tensor([0.8, 0.2]).log())
    found = confidence(task(model, gray(5), "confidence", at=at, eps="8/255"))
    assert found.value == pytest.approx(80.0, abs=1e-4)
    assert found.low == pytest.approx(80.0, abs=1e-3) == found.high


def test_a_linear_model_is_less_sure_where_the_adversary_was() -> None:
    model = Linear(torch.ones(16) / 4)
    sure = {
        at: confidence(task(model, gray(50), "confidence", at=at, eps="8/255")).value
        for at in ("clean", "random", "pgd1")
    }
    logit = torch.tensor(16 / 4 * 128 / 255)
    assert sure["clean"] == pytest.approx(100 * float(logit.sigmoid()), abs=1e-4)
    worst = 100 * float((logit - 16 / 4 * 8 / 255).sigmoid())
    assert worst <= sure["pgd1"] < sure["random"]
    assert sure["random"] == pytest.approx(sure["clean"], abs=1)


WEIGHTS = torch.linspace(-1, 2, 16)


@pytest.mark.parametrize("ball", ["linf", "l2"])
def test_the_loss_of_a_linear_model_rises_by_the_dual_norm(ball: str) -> None:
    eps = 8 / 255
    # In l2 the last bit is covered slowly, along the sphere.
    steps = {"linf": 20, "l2": 400}[ball]
    found = relaxation(task(Linear(WEIGHTS), gray(3), "relaxation", ball=ball, eps="8/255", steps=steps))
    reach = eps * WEIGHTS.abs().sum() if ball == "linf" else math.sqrt(16) * eps * WEIGHTS.norm()
    worst = softplus(-(128 / 255 * WEIGHTS.sum() - reach))
    assert found.value == pytest.approx(float(worst), abs=1e-5)
