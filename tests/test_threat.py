from __future__ import annotations

import math
from dataclasses import FrozenInstanceError
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from scipy import optimize
from torch import Tensor

from soar import randomness
from soar.errors import UserError
from soar.threat import L1, L2, Linf, Threat, threat
from tests.pretending import DEVICE, on_cpu, pretended

SHAPE = (2, 3, 4)
DIMENSION = math.prod(SHAPE)

threats = st.one_of(
    st.floats(0.01, 1).map(Linf),
    st.floats(0.05, 4).map(L2),
    st.floats(0.05, 20).map(L1),
    st.just(Linf("8/255")),
    st.just(L2(1)),
    st.just(L1(1)),
)


def images(seed: int, count: int = 5) -> Tensor:
    """Real-valued images of which some pixels lie exactly on the border of the range."""
    noise = randomness.uniform(randomness.key(seed, torch.arange(count), "x"), SHAPE, torch.float64)
    return (2 * noise - 0.5).clamp(0, 1)


def anywhere(seed: int, count: int = 5) -> Tensor:
    keys = randomness.key(seed, torch.arange(count), "points")
    return 2 * randomness.normal(keys, SHAPE, torch.float64)


@given(threats, st.integers(0, 1000))
def test_projection_is_inside_and_keeps_inside_points(kind: Threat, seed: int) -> None:
    x = images(seed)
    projected = kind.project(anywhere(seed), x)
    assert kind.contains(projected, x).all()
    assert projected.min() >= 0 and projected.max() <= 1
    torch.testing.assert_close(kind.project(projected, x), projected, rtol=0, atol=1e-12)
    inside = kind.random_start(x, randomness.key(seed, torch.arange(5), "start"))
    torch.testing.assert_close(kind.project(inside, x), inside, rtol=0, atol=1e-12)


@given(threats, st.integers(0, 1000))
def test_projection_is_the_nearest_point(kind: Threat, seed: int) -> None:
    # A projection p of a onto a convex set is the only point with <a - p, q - p> <= 0 for all q in it.
    x, a = images(seed), anywhere(seed)
    p = kind.project(a, x)
    for trial in range(20):
        q = kind.random_start(x, randomness.key(seed, torch.arange(5), "q", trial))
        corner = kind.project(anywhere(seed + trial + 1), x)
        for other in (q, corner):
            assert ((a - p) * (other - p)).flatten(1).sum(dim=1).max() <= 1e-8


def test_l2_projection_equals_a_general_solver() -> None:
    x, a = images(3, 1), anywhere(3, 1)
    kind = L2(0.7)
    found = optimize.minimize(
        lambda z: ((z - a.flatten().numpy()) ** 2).sum(),
        x.flatten().numpy(),
        bounds=[(0, 1)] * DIMENSION,
        constraints={
            "type": "ineq",
            "fun": lambda z: 0.7**2 - ((z - x.flatten().numpy()) ** 2).sum(),
        },
        options={"ftol": 1e-14, "maxiter": 1000},
    )
    expected = torch.from_numpy(found.x).reshape(x.shape)
    torch.testing.assert_close(kind.project(a, x), expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("eps", [0.3, 2.0, 6.0])
def test_l1_projection_equals_a_general_solver(eps: float) -> None:
    x, a = images(5, 1), anywhere(5, 1)
    here, there = x.flatten().numpy(), a.flatten().numpy()
    # The variables are how far pixels move up and down, both at least 0.
    signs = np.concatenate([np.ones(DIMENSION), -np.ones(DIMENSION)])

    def moved(z: Any) -> Any:
        return here + z[:DIMENSION] - z[DIMENSION:]

    found = optimize.minimize(
        lambda z: 0.5 * ((moved(z) - there) ** 2).sum(),
        np.zeros(2 * DIMENSION),
        jac=lambda z: signs * np.tile(moved(z) - there, 2),
        method="SLSQP",
        bounds=[(0, 1 - p) for p in here] + [(0, p) for p in here],
        constraints={"type": "ineq", "fun": lambda z: eps - z.sum(), "jac": lambda z: -np.ones_like(z)},
        options={"ftol": 1e-12, "maxiter": 1000},
    )
    assert found.success, found.message
    expected = torch.from_numpy(moved(found.x)).reshape(x.shape)
    torch.testing.assert_close(L1(eps).project(a, x), expected, rtol=0, atol=1e-5)


@given(st.floats(0.05, 20).map(L1), st.integers(0, 1000))
def test_l1_projection_meets_the_conditions_of_optimality(kind: L1, seed: int) -> None:
    x, a = images(seed), anywhere(seed)
    d, m = (a - x).flatten(1), (kind.project(a, x) - x).flatten(1)
    assert (m * d >= 0).all() and (m.abs() <= d.abs() + 1e-12).all()
    room = torch.where(d > 0, 1 - x.flatten(1), x.flatten(1))
    # One multiplier t is subtracted from every pixel that is neither at rest nor at the end of its range.
    left = d.abs() - m.abs()
    is_free = (m.abs() > 1e-9) & (m.abs() < room - 1e-9)
    t = torch.where(is_free, left, 0.0).amax(dim=1, keepdim=True)
    assert ((left - t).abs()[is_free.any(dim=1)] < 1e-9)[is_free[is_free.any(dim=1)]].all()
    is_used = (kind.norm(m) - kind.radius).abs() < 1e-9
    assert (is_used | (t[:, 0] < 1e-9)).all(), "a budget that is left makes the multiplier zero"
    assert (left[(m.abs() < 1e-12) & is_free.any(dim=1)[:, None] & (room > 0)] <= 1e3).all()


def test_projection_of_one_example_ignores_the_others() -> None:
    x, a = images(1, 7), anywhere(1, 7)
    for kind in (Linf(0.1), L2(0.8), L1(2)):
        alone = torch.cat([kind.project(a[i : i + 1], x[i : i + 1]) for i in range(7)])
        assert torch.equal(kind.project(a, x), alone)


@given(threats, st.integers(0, 1000))
def test_radii_that_are_all_eps_change_nothing(kind: Threat, seed: int) -> None:
    x, a = images(seed), anywhere(seed)
    keys = randomness.key(seed, torch.arange(5), "start")
    radius = torch.full((5,), kind.radius, dtype=torch.float64)
    torch.testing.assert_close(kind.project(a, x, radius), kind.project(a, x), rtol=0, atol=1e-12)
    torch.testing.assert_close(
        kind.random_start(x, keys, radius), kind.random_start(x, keys), rtol=0, atol=1e-12
    )


@example(Linf("0.01"), [0.3, 0.001, 0.02, 1.0, 0.1], 0)
@example(L2("0.01"), [0.3, 0.001, 0.02, 1.0, 0.1], 0)
@example(L1("0.01"), [0.3, 0.001, 0.02, 1.0, 0.1], 0)
@given(threats, st.lists(st.floats(0.001, 1), min_size=5, max_size=5), st.integers(0, 1000))
def test_every_example_may_have_a_radius_of_its_own(kind: Threat, radii: list[float], seed: int) -> None:
    x, a = images(seed), anywhere(seed)
    keys = randomness.key(seed, torch.arange(5), "start")
    radius = torch.tensor(radii, dtype=torch.float64)
    projected, started = kind.project(a, x, radius), kind.random_start(x, keys, radius)
    for i, size in enumerate(radii):
        alone, one = type(kind)(size), slice(i, i + 1)
        assert alone.contains(projected[one], x[one]).all() and alone.contains(started[one], x[one]).all()
        torch.testing.assert_close(projected[one], alone.project(a[one], x[one]), rtol=0, atol=1e-12)
        torch.testing.assert_close(started[one], alone.random_start(x[one], keys[one]), rtol=0, atol=1e-12)


@given(threats, st.integers(0, 1000))
def test_ascent_attains_the_dual_norm(kind: Threat, seed: int) -> None:
    gradient = anywhere(seed)
    direction = kind.ascent(gradient)
    torch.testing.assert_close(kind.norm(direction), torch.ones(5, dtype=torch.float64))
    inner = (gradient * direction).flatten(1).sum(dim=1)
    torch.testing.assert_close(inner, kind.dual_norm(gradient))


def test_ascent_of_zero_and_of_tiny_gradients() -> None:
    zero = torch.zeros(1, *SHAPE)
    assert torch.equal(L2(1).ascent(zero), zero)
    tiny = torch.full((1, *SHAPE), 1e-30)
    torch.testing.assert_close(L2(1).norm(L2(1).ascent(tiny)), torch.ones(1))


@given(st.floats(0.1, 8), st.integers(0, 1000))
def test_l1_steps_are_those_of_linear_programming(length: float, seed: int) -> None:
    x, gradient = images(seed, 2), anywhere(seed, 2)
    move = (L1(1).step(x, gradient, length) - x).flatten(1)
    torch.testing.assert_close(move.abs().sum(dim=1), torch.full((2,), length, dtype=torch.float64))
    for row in range(2):
        g, p = gradient[row].flatten().numpy(), x[row].flatten().numpy()
        # Two of 24 pixels are a twentieth, rounded up; none of them takes more than half of the length.
        solved = optimize.linprog(
            np.concatenate([-g, g]),
            A_ub=np.ones((1, 2 * DIMENSION)),
            b_ub=[length],
            bounds=[(0, length / 2 if one < 1 else 0) for one in p]
            + [(0, length / 2 if one > 0 else 0) for one in p],
        )
        assert (g * move[row].numpy()).sum() == pytest.approx(-solved.fun, abs=1e-9)


def test_an_l1_step_is_the_best_of_all_pairs_of_pixels_with_room() -> None:
    x, gradient = images(4, 3), anywhere(4, 3)
    gained = (gradient * (L1(1).step(x, gradient, 1.0) - x)).flatten(1).sum(dim=1)
    for row in range(3):
        g, p = gradient[row].flatten(), x[row].flatten()
        free = [i for i in range(DIMENSION) if (p[i] < 1 if g[i] > 0 else p[i] > 0)]
        assert len(free) < DIMENSION
        best = max(float(g[i].abs() + g[j].abs()) / 2 for i, j in combinations(free, 2))
        assert gained[row].item() == pytest.approx(best)


def test_steps_have_one_length_or_one_each() -> None:
    x, gradient = images(2), anywhere(2)
    lengths = torch.tensor([0.1, 0.2, 0.3, 0.4, 2.0], dtype=torch.float64)
    for kind in (Linf(0.1), L2(1), L1(1)):
        together = kind.step(x, gradient, lengths)
        for row in range(5):
            one = slice(row, row + 1)
            alone = kind.step(x[one], gradient[one], float(lengths[row]))
            torch.testing.assert_close(together[one], alone, rtol=0, atol=1e-15)
    assert torch.equal(L1(1).step(x, torch.zeros_like(x), 2.0), x)


def test_random_start_fills_the_ball() -> None:
    x = torch.full((4000, 1, 1, 2), 0.5, dtype=torch.float64)
    keys = randomness.key(0, torch.arange(4000), "start")
    box = Linf(0.1).random_start(x, keys) - x
    assert box.abs().max() <= 0.1
    torch.testing.assert_close(box.var(), torch.tensor(0.01 / 3, dtype=torch.float64), rtol=0.1, atol=0)
    lengths = L2(0.1).norm(L2(0.1).random_start(x, keys) - x)
    # Uniform in a disc: a quarter of the points lie within half of the radius.
    assert abs((lengths < 0.05).double().mean().item() - 0.25) < 0.03
    delta = (L1(0.1).random_start(x, keys) - x).flatten(1)
    assert delta.abs().sum(dim=1).max() <= 0.1
    # So it is in a square that stands on a corner; a quarter of the points lie in each quadrant, and by the
    # symmetry of the square half of them are farther out along one axis than along the other.
    assert abs((delta.abs().sum(dim=1) < 0.05).double().mean().item() - 0.25) < 0.03
    assert abs(((delta > 0).sum(dim=1) == 2).double().mean().item() - 0.25) < 0.03
    # Along an edge, the share of the first axis is uniform.
    share = delta[:, 0].abs() / delta.abs().sum(dim=1)
    assert abs(share.mean().item() - 0.5) < 0.02 and abs(share.var().item() - 1 / 12) < 0.005


def test_random_starts_in_l1_have_the_size_of_uniform_points_in_many_dimensions() -> None:
    x = torch.full((500, 1, 10, 10), 0.5, dtype=torch.float64)
    delta = (L1(1).random_start(x, randomness.key(0, torch.arange(500), "start")) - x).flatten(1)
    # The norm of a uniform point is distributed as u^(1/d), with mean d / (d + 1); each |delta_i| has mean
    # 1 / (d + 1).
    assert abs(delta.abs().sum(dim=1).mean().item() - 100 / 101) < 0.002
    torch.testing.assert_close(delta.abs().mean(dim=0).mean().item(), 1 / 101, rtol=0.01, atol=0)


def test_enclosing_radius() -> None:
    assert Linf("8/255").enclosing_l2_radius(3072) == pytest.approx(1.7388, abs=1e-4)
    assert L2("1/2").enclosing_l2_radius(3072) == 0.5
    assert L1(12).enclosing_l2_radius(3072) == 12
    corner = torch.full((1, *SHAPE), 0.1)
    assert L2(1).norm(corner).item() == pytest.approx(Linf(0.1).enclosing_l2_radius(DIMENSION))


def test_scaling_keeps_the_ratio_exact() -> None:
    assert Linf("8/255").scaled("1/2") == Linf("4/255")
    assert L2(1).scaled(Fraction(1, 3)).eps == Fraction(1, 3)


def test_a_threat_is_a_frozen_value() -> None:
    same_radius: list[Threat] = [Linf("8/255"), Linf(Fraction(8, 255)), L2("8/255")]
    assert same_radius[0] == same_radius[1] != same_radius[2]
    assert len({Linf("8/255"), Linf("16/510")}) == 1
    with pytest.raises(FrozenInstanceError):
        Linf(0.1).eps = Fraction(1)  # type: ignore[misc]
    assert str(Linf("8/255")) == "linf 8/255" and repr(L2(1.74)) == "L2('1.74')"


def test_points_that_are_not_numbers_are_outside() -> None:
    x = images(0, 2)
    points = x.clone()
    points[1, 0, 0, 0] = float("nan")
    assert Linf(0.1).contains(points, x).tolist() == [True, False]
    assert L2(0.1).contains(points, x).tolist() == [True, False]
    assert L1(0.1).contains(points, x).tolist() == [True, False]
    assert not Linf(0.1).contains(x + 0.2, x).any()


@pytest.mark.parametrize("eps", [0, -0.1, "-8/255", "no"])
@pytest.mark.parametrize("kind", [Linf, L2, L1])
def test_senseless_radii_are_refused(kind: type[Threat], eps: float | str) -> None:
    with pytest.raises(UserError, match=r"threat\.eps: got"):
        kind(eps)


def test_an_linf_radius_in_gray_levels_is_refused() -> None:
    with pytest.raises(UserError, match=r"got 8 for linf, expected at most 1.*8/255"):
        Linf(8)
    assert L2(8).radius == 8


def test_norms_by_name() -> None:
    assert threat("l2", "0.5") == L2(0.5) and threat("l1", 12) == L1("12")
    with pytest.raises(UserError, match=r"unknown norm 'linff' \(threat.norm\); did you mean 'linf'"):
        threat("linff", 1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize(
    "kind", [Linf("8/255"), Linf("1/255"), L2("0.5"), L2(2), L2("0.01"), L1(12)], ids=str
)
def test_projected_points_are_inside_and_points_a_little_beyond_are_not(
    kind: Threat, dtype: torch.dtype
) -> None:
    shape = (3, 32, 32)
    keys = randomness.key(0, torch.arange(64), "x")
    x = randomness.uniform(keys, shape, dtype)
    x[:32] = (255 * x[:32]).round() / 255
    far = x + randomness.normal(randomness.key(0, torch.arange(64), "far"), shape, dtype)
    points = kind.project(far, x)
    assert kind.contains(points, x).all()
    assert torch.equal(kind.project(points, x), points), "a point of both is returned as it is"
    unit = torch.finfo(dtype).eps
    within = 0.3 * x + 0.35  # no pixel is clipped
    in_l1 = isinstance(kind, L1)
    # One pixel alone has no room for all of an l1 radius.
    delta = ((far - x).sign() / 3072 if in_l1 else kind.ascent(far - x)) * kind.radius
    # Spread over so many pixels, anything less would be rounded away.
    more, less = (1000, 1000) if in_l1 else (8 + 4 / kind.radius, 4 / kind.radius)
    beyond = within + delta * (1 + unit * more)
    assert not kind.contains(beyond, within).any()
    assert kind.contains(within + delta * (1 - unit * less), within).all()


def test_the_projection_of_an_example_does_not_depend_on_others_being_inside() -> None:
    x = images(1, 4)
    points = torch.cat([anywhere(1, 2), x[2:]])
    together = L2(0.3).project(points, x)
    alone = torch.cat([L2(0.3).project(points[row : row + 1], x[row : row + 1]) for row in range(4)])
    torch.testing.assert_close(together, alone, rtol=0, atol=1e-15)
    assert torch.equal(together[2:], x[2:])


@pytest.mark.parametrize("radius", [None, 0.4], ids=["eps", "radii"])
def test_projections_do_not_wait_for_a_device_and_are_those_of_the_cpu(radius: float | None) -> None:
    keys = randomness.key(0, torch.arange(9), "device")
    x = randomness.uniform(keys, (1, 4, 4))
    # Near, far and very far from the image; the first are inside of the ball.
    points = x + torch.logspace(-3, 2, 9).reshape(-1, 1, 1, 1) * randomness.normal(keys, (1, 4, 4))
    radii = None if radius is None else torch.linspace(radius, 2, 9)
    for ball in (L2("0.5"), Linf("0.1")):
        expected = ball.project(points, x, radii)
        with pretended() as record:
            given = (one if one is None else one.to(DEVICE) for one in (points, x, radii))
            found = ball.project(*given)  # type: ignore[arg-type]
            assert not record.reads
        assert torch.equal(on_cpu(found), expected)
