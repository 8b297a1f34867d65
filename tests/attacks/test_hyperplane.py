from __future__ import annotations

import math
from typing import Any, cast

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize
from torch import Tensor

from soar import randomness
from soar.attacks.hyperplane import nearest, step_over
from soar.errors import UserError
from soar.threat import L1, L2, Linf, Threat
from tests.pretending import DEVICE, on_cpu, pretended

NORMS: list[Threat] = [Linf(1), L2(1)]
both = pytest.mark.parametrize("threat", NORMS, ids=str)
all_norms = pytest.mark.parametrize("threat", [*NORMS, L1(1)], ids=str)


def problem(
    seed: int, count: int = 4, size: int = 6, reach: float = 0.5, *, edges: bool = True
) -> tuple[Tensor, Tensor, Tensor]:
    """Points of which some pixels lie on the border, normals of very different sizes, and values."""
    keys = randomness.key(seed, torch.arange(count), "hyperplane")
    draws = randomness.uniform(keys, (3, size), torch.float64)
    x = (2 * draws[:, 0] - 0.5).clamp(0, 1) if edges else 0.4 + 0.2 * draws[:, 0]
    w = torch.where(draws[:, 1] < 0.5, -1, 1) * (0.02 + draws[:, 2]) ** 3
    value = (2 * randomness.uniform(keys + 1, (), torch.float64) - 1) * reach * w.abs().sum(dim=1)
    return x, w, value


def room_in(x: Tensor, w: Tensor, value: Tensor) -> Tensor:
    """How much of the value the whole pixel range can take away."""
    down = w * value.sign()[:, None]
    return (down.abs() * torch.where(down > 0, x, 1 - x)).sum(dim=1)


def check_feasible(x: Tensor, w: Tensor, value: Tensor, move: Tensor) -> None:
    moved = x + move
    assert moved.min() >= -1e-12 and moved.max() <= 1 + 1e-12
    reachable = room_in(x, w, value) >= value.abs()
    torch.testing.assert_close((value + (w * move).sum(dim=1))[reachable], torch.zeros_like(value[reachable]))


@both
def test_away_from_the_border_of_the_pixels_it_is_the_closed_form(threat: Threat) -> None:
    x, w, value = problem(1, count=20, size=12, reach=0.02, edges=False)
    if isinstance(threat, Linf):
        expected = -(value / w.abs().sum(dim=1))[:, None] * w.sign()
    else:
        expected = -(value / w.square().sum(dim=1))[:, None] * w
        assert expected.abs().max() < 0.4
    torch.testing.assert_close(nearest(x, w, value, threat), expected)
    assert threat.norm(expected).max() > 0.01


@given(st.integers(0, 10_000), st.sampled_from([0.1, 0.5, 0.9]))
def test_linf_moves_are_as_short_as_those_of_linear_programming(seed: int, reach: float) -> None:
    x, w, value = problem(seed, reach=reach)
    move = nearest(x, w, value, Linf(1))
    check_feasible(x, w, value, move)
    for i in (room_in(x, w, value) >= value.abs() + 1e-9).nonzero()[:, 0].tolist():
        size = x.shape[1]
        # The variables are the moves and the bound on them, which is minimized.
        sides = np.block([[np.eye(size), -np.ones((size, 1))], [-np.eye(size), -np.ones((size, 1))]])
        solved = optimize.linprog(
            c=[0.0] * size + [1.0],
            A_ub=sides,
            b_ub=np.zeros(2 * size),
            A_eq=[[*w[i].tolist(), 0.0]],
            b_eq=[-value[i].item()],
            bounds=[(-p, 1 - p) for p in x[i].tolist()] + [(0, None)],
        )
        assert solved.success
        assert move[i].abs().max().item() == pytest.approx(solved.fun, abs=1e-7)


@given(st.integers(0, 10_000), st.sampled_from([0.1, 0.5, 0.9]))
def test_l1_moves_are_as_short_as_those_of_linear_programming(seed: int, reach: float) -> None:
    x, w, value = problem(seed, reach=reach)
    move = nearest(x, w, value, L1(1))
    check_feasible(x, w, value, move)
    for i in (room_in(x, w, value) >= value.abs() + 1e-9).nonzero()[:, 0].tolist():
        # The variables are how far pixels move up and down, both at least 0.
        up, down = (1 - x[i]).tolist(), x[i].tolist()
        solved = optimize.linprog(
            c=np.ones(2 * x.shape[1]),
            A_eq=np.concatenate([w[i].numpy(), -w[i].numpy()])[None],
            b_eq=[-value[i].item()],
            bounds=[(0, most) for most in up + down],
        )
        assert solved.success
        assert move[i].abs().sum().item() == pytest.approx(solved.fun, abs=1e-7)


def test_in_l1_the_pixel_of_the_largest_gradient_moves_first() -> None:
    x, w = torch.full((1, 3), 0.5), torch.tensor([[1.0, -4.0, 2.0]])
    assert nearest(x, w, torch.tensor([1.0]), L1(1)).tolist() == [[0.0, 0.25, 0.0]]
    assert nearest(x, w, torch.tensor([2.5]), L1(1)).tolist() == [[0.0, 0.5, -0.25]]


@given(st.integers(0, 10_000), st.sampled_from([0.1, 0.5, 0.9]))
def test_l2_moves_are_those_of_quadratic_programming(seed: int, reach: float) -> None:
    x, w, value = problem(seed, count=1, reach=reach)
    move = nearest(x, w, value, L2(1))
    check_feasible(x, w, value, move)
    if room_in(x, w, value) < value.abs() + 1e-3:
        return
    gradient, gap = w[0].numpy(), value.item()
    solved = optimize.minimize(
        lambda m: 0.5 * m @ m,
        np.zeros(len(gradient)),
        jac=lambda m: m,
        method="SLSQP",
        bounds=[(-p, 1 - p) for p in x[0].tolist()],
        constraints={"type": "eq", "fun": lambda m: gradient @ m + gap, "jac": lambda _: gradient},
        options={"ftol": 1e-14, "maxiter": 500},
    )
    assert solved.success
    np.testing.assert_allclose(move[0].numpy(), solved.x, atol=1e-6)


@both
@given(seed=st.integers(0, 10_000), reach=st.sampled_from([0.05, 0.3, 0.6, 1.0]))
def test_moves_meet_the_conditions_of_optimality(threat: Threat, seed: int, reach: float) -> None:
    x, w, value = problem(seed, size=40, reach=reach)
    move = nearest(x, w, value, threat)
    check_feasible(x, w, value, move)
    down = w * value.sign()[:, None]
    room = torch.where(down > 0, x, 1 - x)
    assert (move * down <= 0).all()
    # One multiplier t explains every pixel: it moves by t (times |w| for l2), or by all its room if less.
    size, pace = move.abs(), torch.ones_like(w) if isinstance(threat, Linf) else w.abs()
    is_free = size < room - 1e-12
    t = torch.where(is_free, size / pace, -torch.inf).amax(dim=1, keepdim=True)
    t = torch.where(t.isinf(), 1e8, t)
    torch.testing.assert_close(size, torch.minimum(t * pace, room))


@all_norms
def test_a_plane_out_of_reach_is_approached_with_all_the_room(threat: Threat) -> None:
    x, w, _ = problem(2, size=30)
    move = nearest(x, w, 2 * w.abs().sum(dim=1), threat)
    torch.testing.assert_close(x + move, (w < 0).to(x.dtype))
    back = nearest(x, w, -2 * w.abs().sum(dim=1), threat)
    torch.testing.assert_close(x + back, (w > 0).to(x.dtype))


@both
def test_breaks_that_come_one_at_a_time_are_all_found(threat: Threat) -> None:
    # Every further pixel has ten times the room and a tenth of the weight of the one before.
    powers = torch.arange(6, dtype=torch.float64)
    x, w = 10 ** (powers - 5)[None], 10 ** (-powers)[None]
    value = (w * x).sum(dim=1) * (1 - 1e-9)
    move = nearest(x, w, value, threat)
    check_feasible(x, w, value, move)
    torch.testing.assert_close(move[:, :-1], -x[:, :-1])


@all_norms
def test_nothing_moves_on_the_plane_or_without_a_gradient(threat: Threat) -> None:
    x, w, value = problem(3)
    assert not nearest(x, w, torch.zeros_like(value), threat).any()
    assert not nearest(x, torch.zeros_like(w), value, threat).any()
    w[:, 0] = 0
    assert not nearest(x, w, value, threat)[:, 0].any()


@all_norms
@pytest.mark.parametrize("scale", [1e-30, 1e-3, 1e25])
def test_the_length_of_the_normal_does_not_matter(threat: Threat, scale: float) -> None:
    x, w, value = (part.float() for part in problem(4, count=8, size=50))
    move = nearest(x, w, value, threat)
    torch.testing.assert_close(nearest(x, scale * w, scale * value, threat), move)
    torch.testing.assert_close(nearest(x, -w, -value, threat), move)


@both
@given(seed=st.integers(0, 10_000))
def test_single_precision_is_nearly_as_good(threat: Threat, seed: int) -> None:
    x, w, value = problem(seed, size=784, reach=0.2)
    single = nearest(x.float(), w.float(), value.float(), threat)
    torch.testing.assert_close(single.double(), nearest(x, w, value, threat), atol=2e-5, rtol=0)


@all_norms
@given(seed=st.integers(0, 10_000))
def test_examples_of_a_batch_do_not_know_each_other(threat: Threat, seed: int) -> None:
    x, w, value = (part.float() for part in problem(seed, count=6, size=50, reach=0.9))
    whole = nearest(x, w, value, threat)
    alone = torch.cat([nearest(x[i : i + 1], w[i : i + 1], value[i : i + 1], threat) for i in range(6)])
    torch.testing.assert_close(whole, alone, atol=1e-6, rtol=0)
    order = torch.tensor([3, 0, 5, 1, 4, 2])
    assert torch.equal(nearest(x[order], w[order], value[order], threat), whole[order])


@all_norms
def test_answers_that_are_not_numbers_do_no_harm(threat: Threat) -> None:
    x, w, value = problem(5)
    value[:3] = torch.tensor([math.nan, math.inf, -math.inf])
    move = nearest(x, w, value, threat)
    assert move.isfinite().all() and not move[0].any()
    torch.testing.assert_close((x + move)[1:3], torch.stack([(w[1] < 0).double(), (w[2] > 0).double()]))


def test_pixels_that_hardly_matter_are_left_alone_in_l2() -> None:
    x, w = torch.full((1, 3), 0.5), torch.tensor([[1.0, 1e-7, 1e-9]])
    move = nearest(x, w, torch.tensor([2.0]), L2(1))
    assert move.tolist() == [[-0.5, -0.5, 0.0]]


def test_images_keep_their_shape() -> None:
    x, w, value = problem(6, size=24)
    shape = (4, 2, 3, 4)
    flat = nearest(x, w, value, L2(1))
    torch.testing.assert_close(nearest(x.reshape(shape), w.reshape(shape), value, L2(1)), flat.reshape(shape))


def test_an_unknown_norm_is_refused() -> None:
    with pytest.raises(UserError, match="expected Linf, L2 or L1"):
        nearest(*problem(7), cast(Any, "l0"))


@all_norms
def test_a_step_from_the_image_overshoots_by_eta(threat: Threat) -> None:
    x, w, value = problem(8, size=12, reach=0.02, edges=False)
    stepped = step_over(x, x, value, w, threat, alpha=0.1, eta=1.05)
    torch.testing.assert_close(stepped, x + 1.05 * nearest(x, w, value, threat))


@all_norms
def test_a_step_weighs_the_two_projections_by_their_lengths(threat: Threat) -> None:
    x, w, value = problem(9, size=12, reach=0.05, edges=False)
    points = x + 0.02 * w.sign()
    from_point = nearest(points, w, value, threat)
    from_image = nearest(x, w, value + (w * (x - points)).sum(dim=1), threat)
    near, far = threat.norm(from_point), threat.norm(from_image)
    for alpha in (0.1, 1.0):
        a = (near / (near + far)).clamp(max=alpha)[:, None]
        expected = (1 - a) * (points + 1.05 * from_point) + a * (x + 1.05 * from_image)
        stepped = step_over(points, x, value, w, threat, alpha=alpha, eta=1.05)
        torch.testing.assert_close(stepped, expected.clamp(0, 1))


@pytest.mark.parametrize("threat", [Linf(1), L2(1)], ids=str)
def test_planes_are_reached_on_a_device_as_on_the_cpu(threat: Threat) -> None:
    keys = randomness.key(0, torch.arange(6), "device")
    points, x = (randomness.uniform(keys + k, (1, 20, 20)) for k in range(2))
    # Weights of all sizes, so that pixels use up their room one after the other.
    gradient = randomness.normal(keys + 2, (1, 20, 20)).pow(9)
    value = -torch.logspace(-2, 7, 6)
    expected = step_over(points, x, value, gradient, threat, alpha=0.1, eta=1.05)
    with pretended() as record:
        start, center, height, normal = (one.to(DEVICE) for one in (points, x, value, gradient))
        found = step_over(start, center, height, normal, threat, alpha=0.1, eta=1.05)
        assert 1 <= len(record.reads) <= 3, "not after every round"
    assert torch.equal(on_cpu(found), expected)
