"""The loss that PGD reaches in both balls, for a linear model, where it is known."""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn.functional import softplus

from soar.experiments.measuring.relaxation import relaxation
from tests.experiments.subjects import Linear, gray, subject

WEIGHTS = torch.linspace(-1, 2, 16)


@pytest.mark.parametrize("ball", ["linf", "l2"])
def test_the_loss_of_a_linear_model_rises_by_the_dual_norm(ball: str) -> None:
    eps = 8 / 255
    # In l2 the last bit is covered slowly, along the sphere.
    steps = {"linf": 20, "l2": 400}[ball]
    found = relaxation(subject(Linear(WEIGHTS), gray(3), "relaxation", ball=ball, eps="8/255", steps=steps))
    reach = eps * WEIGHTS.abs().sum() if ball == "linf" else math.sqrt(16) * eps * WEIGHTS.norm()
    worst = softplus(-(128 / 255 * WEIGHTS.sum() - reach))
    assert found.value == pytest.approx(float(worst), abs=1e-5)
    assert (found.forward, found.backward) == (steps + 1, steps)


def test_the_radius_is_that_of_the_enclosing_ball() -> None:
    weights = torch.ones(3072)
    split = gray(1, (3, 32, 32))
    found = relaxation(subject(Linear(weights), split, "relaxation", ball="l2", eps="8/255", steps=1))
    assert found.details["radius"] == pytest.approx(1.7388, abs=1e-4)
