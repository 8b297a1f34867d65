from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from soar import randomness
from soar.curvature import LossAt
from soar.errors import UserError
from soar.objectives import LLR, MART, TRADES
from soar.objectives.ascent import ascend, near
from soar.threat import L2, Linf, Threat
from tests.attacks.problems import SHAPE, Linear, TinyNet, images, said

THREATS: list[Threat] = [Linf("0.05"), L2("0.15")]
INDEX = torch.arange(4)


def step_up(image: Tensor, point: Tensor, slope: Tensor, kind: Threat, length: float, eps: float) -> Tensor:
    """One step of one example, written out for images that the pixel range does not limit."""
    if isinstance(kind, Linf):
        return image + (point + length * slope.sign() - image).clamp(-eps, eps)
    delta = point + length * slope / slope.square().sum().sqrt() - image
    return image + delta * min(1.0, eps / float(delta.square().sum().sqrt()))


def cross_entropy_of(model: TinyNet, labels: Tensor) -> LossAt:
    def height(points: Tensor) -> Tensor:
        p: Tensor = model(points).softmax(dim=1)
        return -p.gather(1, labels[:, None])[:, 0].log()

    return height


def slope_at(model: TinyNet, point: Tensor, label: Tensor) -> Tensor:
    leaf = point.clone().requires_grad_()
    (slope,) = torch.autograd.grad(-model(leaf[None])[0].softmax(dim=0)[label].log(), leaf)
    return slope


@pytest.mark.parametrize("threat", THREATS, ids=str)
def test_steps_are_the_formula_written_out(threat: Threat) -> None:
    model, x = TinyNet(), images(4)
    y = said(model, x)
    start = near(x, threat, index=INDEX, seed=0, step=0)
    height = cross_entropy_of(model, y)
    found = ascend(height, threat, x, start, steps=5, step_size=0.03)
    for i in range(4):
        point = start[i]
        for _ in range(5):
            slope = slope_at(model, point, y[i])
            point = step_up(x[i], point, slope, threat, 0.03, threat.radius)
        torch.testing.assert_close(found[i], point, rtol=0, atol=1e-12)


@pytest.mark.parametrize("threat", THREATS, ids=str)
def test_every_example_can_have_its_own_radius_and_step(threat: Threat) -> None:
    model, x = TinyNet(), images(4)
    y = said(model, x)
    lengths = torch.tensor([0.01, 0.02, 0.05, 0.1], dtype=torch.float64)
    radii = torch.tensor([0.2, 0.03, 0.01, 0.12], dtype=torch.float64)
    height = cross_entropy_of(model, y)
    found = ascend(height, threat, x, x, steps=3, step_size=lengths, radius=radii)
    for i in range(4):
        point = x[i]
        for _ in range(3):
            slope = slope_at(model, point, y[i])
            point = step_up(x[i], point, slope, threat, float(lengths[i]), float(radii[i]))
        torch.testing.assert_close(found[i], point, rtol=0, atol=1e-12)


def visited(threat: Threat, x: Tensor, steps: int, step_size: float | None = None) -> list[Tensor]:
    """The points where a linear function is evaluated, and the end."""
    points: list[Tensor] = []

    def height(at: Tensor) -> Tensor:
        points.append(at.detach())
        return at.flatten(1).sum(dim=1)

    end = ascend(height, threat, x, x, steps=steps, step_size=step_size)
    return [*points, end]


@pytest.mark.parametrize("steps, part", [(1, 1.25), (2, 1.25), (5, 0.5), (10, 0.25), (40, 0.25)])
def test_the_usual_step_is_a_part_of_eps(steps: int, part: float) -> None:
    points = visited(Linf("0.2"), images(2), steps)
    assert len(points) == steps + 1
    moved = torch.full_like(points[0], min(1.0, part) * 0.2)
    torch.testing.assert_close(points[1] - points[0], moved, rtol=0, atol=1e-12)


def test_a_given_step_is_taken_whatever_eps() -> None:
    for threat in (Linf("0.2"), Linf("0.1")):
        points = visited(threat, images(2), 3, 0.01)
        for before, after in pairwise(points):
            torch.testing.assert_close(after - before, torch.full_like(after, 0.01), rtol=0, atol=1e-12)


def test_the_usual_step_follows_a_threat_that_changes() -> None:
    for eps in ("0.2", "0.04"):
        points = visited(Linf(eps), images(2), 10)
        moved = torch.full_like(points[0], float(eps) / 4)
        torch.testing.assert_close(points[1] - points[0], moved, rtol=0, atol=1e-12)


@pytest.mark.parametrize("threat", THREATS, ids=str)
def test_a_linear_function_is_climbed_to_its_maximum(threat: Threat) -> None:
    model, x = Linear(classes=2), images(4)
    w = (model.weight[1] - model.weight[0]).detach()
    found = ascend(lambda at: (at * w).flatten(1).sum(dim=1), threat, x, x, steps=10)
    best = w.sign() if isinstance(threat, Linf) else w / w.square().sum().sqrt()
    torch.testing.assert_close(found, x + threat.radius * best, rtol=0, atol=1e-12)


@given(st.integers(0, 1000), st.sampled_from(["linf", "l2"]), st.floats(0.001, 1), st.integers(1, 4))
def test_points_stay_in_the_ball_and_among_the_pixels(seed: int, norm: str, eps: float, steps: int) -> None:
    threat: Threat = Linf(eps) if norm == "linf" else L2(eps)
    keys = randomness.key(seed, INDEX, "anywhere")
    # A third of all pixels are black or white.
    x = (1.5 * randomness.uniform(keys, SHAPE, torch.float64) - 0.25).clamp(0, 1)
    start = near(x, threat, index=INDEX, seed=seed, step=0)
    assert threat.contains(start, x).all()
    model = TinyNet()
    found = ascend(lambda at: model(at)[:, 0], threat, x, start, steps=steps)
    assert threat.contains(found, x).all()


def test_a_flat_function_leaves_the_points_where_they_are() -> None:
    x = images(3)
    for threat in THREATS:
        found = ascend(lambda at: 0 * at.flatten(1).sum(dim=1), threat, x, x, steps=3)
        torch.testing.assert_close(found, x, rtol=0, atol=1e-15)


@pytest.mark.parametrize("threat", THREATS, ids=str)
@pytest.mark.parametrize("wants_gradient", [False, True])
def test_points_carry_no_graph(threat: Threat, wants_gradient: bool) -> None:
    model, x = TinyNet(), images(3).requires_grad_(wants_gradient)
    found = ascend(lambda at: model(at)[:, 0], threat, x, x, steps=2)
    assert not found.requires_grad
    assert all(parameter.grad is None for parameter in model.parameters())


@pytest.mark.parametrize("threat", THREATS, ids=str)
def test_starts_are_normal_noise_of_a_thousandth(threat: Threat) -> None:
    x, index = images(4), torch.tensor([7, 3, 100, 0])
    noise = randomness.normal(randomness.key(5, index, "near start", 2), SHAPE, torch.float64)
    found = near(x, threat, index=index, seed=5, step=2)
    torch.testing.assert_close(found, x + 0.001 * noise, rtol=0, atol=1e-15)


def test_starts_come_back_into_a_ball_smaller_than_the_noise() -> None:
    x = images(4)
    noise = 0.001 * randomness.normal(randomness.key(5, INDEX, "near start", 2), SHAPE, torch.float64)
    cut = near(x, Linf("0.0004"), index=INDEX, seed=5, step=2)
    torch.testing.assert_close(cut, x + noise.clamp(-0.0004, 0.0004), rtol=0, atol=1e-15)
    short = near(x, L2("0.0004"), index=INDEX, seed=5, step=2)
    lengths = noise.flatten(1).square().sum(dim=1).sqrt()[:, None, None, None]
    torch.testing.assert_close(short, x + 0.0004 * noise / lengths, rtol=0, atol=1e-14)


def test_starts_depend_on_seed_step_and_example_alone() -> None:
    x = images(1).expand(4, *SHAPE)
    first = near(x, Linf("0.1"), index=INDEX, seed=0, step=0)
    assert len({tuple(row.flatten().tolist()) for row in first}) == 4
    turned = near(x, Linf("0.1"), index=INDEX.flip(0), seed=0, step=0)
    assert torch.equal(turned.flip(0), first)
    for seed, step in ((1, 0), (0, 1)):
        other = near(x, Linf("0.1"), index=INDEX, seed=seed, step=step)
        assert not (other == first).any()


@pytest.mark.parametrize("kind", [TRADES, MART, LLR])
def test_bad_values_are_refused_when_an_objective_is_built(kind: type[TRADES]) -> None:
    for steps in (0, -3):
        with pytest.raises(UserError, match=rf"^objective\.steps: got {steps}, expected at least 1 "):
            kind(TinyNet(), Linf(0.1), steps=steps)
    with pytest.raises(UserError, match=r"^objective\.step_size: got 0, expected a number above 0 "):
        kind(TinyNet(), Linf(0.1), step_size="0")
    with pytest.raises(UserError, match=r"^objective\.step_size: got 'two', expected a positive number "):
        kind(TinyNet(), Linf(0.1), step_size="two")


@pytest.mark.parametrize("size", ["1/100", 0.01, Fraction(1, 100)])
def test_a_step_size_is_read_exactly(size: str | float | Fraction) -> None:
    assert TRADES(TinyNet(), Linf(0.1), step_size=size).step_size == 0.01
