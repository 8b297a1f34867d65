"""The regularized loss is the objective's own, and known for a flat model."""

from __future__ import annotations

import math

import pytest
import torch

from soar import curvature, models, randomness
from soar.errors import UserError
from soar.objectives import SOAR
from soar.experiments.measuring.samples import regularized_losses, samples
from soar.threat import Linf
from tests.experiments.subjects import Constant, gray, subject

OPTIONS = {"start": "pgd-1", "product": "difference", "step": 0.5, "scale": 1 / 64}


@pytest.mark.parametrize("clamp", [None, 0.05])
@pytest.mark.parametrize("count", [1, 3])
def test_it_is_what_the_objective_minimizes(count: int, clamp: float | None) -> None:
    model = models.build("resnet10", seed=0, num_classes=4, image_shape=(1, 8, 8), options={"width": 2})
    x = randomness.uniform(randomness.key(0, torch.arange(6), "test"), (1, 8, 8))
    y, index = torch.arange(6) % 4, torch.arange(6) + 7
    trained = SOAR(model, Linf("8/255"), samples=count, clamp=clamp, seed=3, **OPTIONS)  # type: ignore[arg-type]
    found = regularized_losses(trained, x, y, index, samples=count)
    assert found.shape == (6,)
    assert float(found.mean()) == pytest.approx(float(trained(x, y, index, 0).loss.detach()), rel=1e-5)


def test_a_flat_model_pays_for_the_corner_alone() -> None:
    split = gray(5)
    of = subject(Constant(torch.zeros(2)), split, "samples", samples=4, objective=OPTIONS, eps="8/255")
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
    with pytest.raises(UserError, match="got gauss-newton, expected difference"):
        regularized_losses(objective, torch.zeros(1, 1, 4, 4), torch.zeros(1), torch.zeros(1), samples=1)
