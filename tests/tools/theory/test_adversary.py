from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tools.theory.adversary import _project, largest_gain
from torch import Tensor

from soar.threat import L2, Linf, Threat
from tests.tools.theory.test_expansion import numbers


def search(weights: Tensor, x: Tensor, threat: Threat, in_pixel_range: bool) -> Tensor:
    def loss(points: Tensor) -> Tensor:
        return points.flatten(1) @ weights

    return largest_gain(
        loss,
        x,
        threat,
        in_pixel_range=in_pixel_range,
        index=torch.arange(len(x)),
        seed=0,
        steps=20,
        starts=2,
    )


@pytest.mark.parametrize("name", ["linf", "l2", "pixel range"])
def test_the_rise_of_a_linear_loss_is_found_exactly(name: str) -> None:
    weights, x = numbers(0, 6), torch.tensor([0.0, 0.02, 0.5, 0.5, 0.98, 1.0]).double().reshape(1, 1, 2, 3)
    room = torch.where(weights > 0, 1 - x.flatten(), x.flatten()).clamp(max=0.1)
    threat, rise = {
        "linf": (Linf(0.1), 0.1 * weights.abs().sum()),
        "l2": (L2(0.1), 0.1 * weights.norm()),
        "pixel range": (Linf(0.1), (room * weights.abs()).sum()),
    }[name]
    torch.testing.assert_close(search(weights, x, threat, name == "pixel range"), rise.reshape(1))


@given(st.integers(0, 1000), st.sampled_from([Linf(0.1), L2(0.3)]))
def test_projections_are_inside_and_leave_inner_points_alone(seed: int, threat: Linf | L2) -> None:
    x = numbers(seed, 2, 1, 2, 2).sigmoid()
    inside = _project(threat, x + numbers(seed + 1, 2, 1, 2, 2), x)
    assert bool((threat.norm(inside - x) <= threat.radius * (1 + 1e-12)).all())
    torch.testing.assert_close(_project(threat, inside, x), inside)


def test_the_rise_is_never_negative() -> None:
    x = torch.full((1, 1, 1, 1), 0.5, dtype=torch.float64)
    found = largest_gain(
        lambda points: -(points - x).flatten(1).square().sum(dim=1),
        x,
        Linf(0.1),
        in_pixel_range=False,
        steps=3,
        starts=2,
        index=torch.zeros(1, dtype=torch.int64),
        seed=0,
    )
    assert found.tolist() == [0]
