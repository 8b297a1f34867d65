from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from soar import randomness
from soar.evaluation.checks.heads import (
    BORDER,
    FORWARD,
    INNER_POINTS,
    Binarized,
    Heads,
    binarize,
    fit_heads,
    surface_points,
)
from soar.evaluation.features import Features, find_features
from soar.evaluation.target import Target
from soar.threat import L2, Linf, Threat
from tests.evaluation.checks.made import SHAPE, images


def drawn(count: int, points: int, dimension: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    keys = randomness.key(seed, torch.arange(count), "features")
    every = randomness.normal(keys, (points + 1, dimension), torch.float64)
    return every[:, 1:], 3 * every[:, 0]


def linear(classes: int = 3) -> nn.Sequential:
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        return nn.Sequential(nn.Flatten(), nn.Linear(36, classes)).eval()


def target(model: nn.Module, threat: Threat, count: int = 20, batch_size: int = 128) -> Target:
    x = images(count)
    with torch.no_grad():
        return Target(model=model, data=(x, model(x).argmax(dim=1)), threat=threat, batch_size=batch_size)


def features_of(made: Target) -> Features:
    found = find_features(made.model, made.x[:1])
    assert found is not None
    return found


def test_without_any_spread_the_head_points_from_the_inside_to_the_outer_point() -> None:
    heads = fit_heads(torch.zeros(1, 4, 2), torch.tensor([[3.0, 4.0]]))
    assert heads.weight.tolist() == [[3.0, 4.0]] and heads.separates.all()
    assert heads.threshold.item() == pytest.approx(BORDER * 25) and heads.scale.item() == pytest.approx(25)


@pytest.mark.parametrize(("points", "dimension"), [(4, 9), (9, 4), (16, 64)])
def test_heads_are_fisher_s_discriminant(points: int, dimension: int) -> None:
    """The dense solution, with a matrix of the size of the features."""
    inner, outer = drawn(5, points, dimension)
    heads = fit_heads(inner, outer)
    for i in range(5):
        c = inner[i] - inner[i].mean(dim=0)
        ridge = 0.01 * float((c @ c.T).diagonal().mean())
        dense = c.T @ c + ridge * torch.eye(dimension, dtype=torch.float64)
        expected = ridge * torch.linalg.solve(dense, outer[i] - inner[i].mean(dim=0))
        torch.testing.assert_close(heads.weight[i], expected)


@given(
    st.integers(0, 1000),
    st.integers(1, 20),
    st.integers(1, 40),
    st.sampled_from([torch.float32, torch.float64]),
)
def test_the_border_is_nearly_at_the_outer_point(
    seed: int, points: int, dimension: int, dtype: torch.dtype
) -> None:
    inner, outer = (each.to(dtype) for each in drawn(4, points, dimension, seed))
    heads = fit_heads(inner, outer)
    some = heads.separates

    def scores(f: Tensor) -> Tensor:
        along = torch.einsum("n...d,nd->n...", f.double(), heads.weight).reshape(4, -1)
        return ((along - heads.threshold[:, None]) / heads.scale[:, None])[some]

    assert torch.allclose(scores(outer), torch.tensor(1 - BORDER, dtype=torch.float64), atol=1e-6)
    assert torch.allclose(scores(inner).amax(dim=1), torch.tensor(-BORDER, dtype=torch.float64), atol=1e-6)


def test_points_that_nothing_tells_apart_have_no_head() -> None:
    inner, outer = drawn(4, 5, 8)
    # Between the others; one of the others; one that differs from them by the last digit only.
    outer[0] = inner[0].mean(dim=0)
    outer[1] = inner[1, 2]
    inner[2] = 1.0
    outer[2] = torch.tensor(1.0).nextafter(torch.tensor(2.0))
    assert fit_heads(inner.float(), outer.float()).separates.tolist() == [False, False, False, True]
    same = fit_heads(torch.ones(1, 3, 8), torch.ones(1, 8))
    assert not same.separates.any() and same.weight.isfinite().all() and same.scale.isfinite().all()
    assert not fit_heads(torch.full((1, 3, 8), torch.nan), torch.ones(1, 8)).separates.any()


@pytest.mark.parametrize("threat", [Linf("0.1"), L2("0.5")], ids=str)
def test_surface_points_lie_on_the_surface_and_depend_on_their_key_alone(threat: Threat) -> None:
    x, keys = images(8), randomness.key(3, torch.arange(8), "surface")
    points = surface_points(x, threat, keys)
    torch.testing.assert_close(threat.norm(points - x), torch.full((8,), threat.radius), rtol=1e-5, atol=0)
    assert torch.equal(surface_points(x[5:6], threat, keys[5:6])[0], points[5])
    if isinstance(threat, Linf):
        torch.testing.assert_close((points - x).abs(), torch.full_like(x, 0.1))
    black = torch.zeros(1, *SHAPE)
    assert threat.contains(surface_points(black, threat, keys[:1]), black).all(), "no pixel below black"


@pytest.mark.parametrize("threat", [Linf("0.1"), L2("0.5")], ids=str)
def test_every_task_has_its_solution_and_the_image_is_none(threat: Threat) -> None:
    made = target(linear(), threat)
    features = features_of(made)
    heads, lucky = binarize(made, features)
    assert heads.separates.all() and not lucky.any()
    solve, rows = Binarized(features, heads), torch.arange(20)
    outer = surface_points(made.x[:], threat, randomness.key(0, rows, "climb surface"))
    with torch.no_grad():
        assert torch.allclose(
            solve(outer, rows)[:, 1], torch.tensor(1 - BORDER, dtype=torch.float64), atol=1e-4
        )
        assert (solve(made.x[:], rows)[:, 1] <= -BORDER + 1e-4).all()
        assert (solve(made.x[:], rows)[:, 0] == 0).all()
    # The features are the pixels, so this is the largest score in the ball, and it is in reach.
    most = threat.radius * threat.dual_norm(heads.weight)
    at_image = torch.linalg.vecdot(made.x[:].flatten(1).double(), heads.weight)
    assert (at_image + most > heads.threshold).all()


def test_batches_and_order_do_not_matter() -> None:
    whole, lucky = binarize(target(linear(), Linf("0.1")), features_of(target(linear(), Linf("0.1"))))
    for rows in (torch.arange(20).flip(0), torch.tensor([3])):
        made = target(linear(), Linf("0.1"), batch_size=3).subset(rows)
        some, other = binarize(made, features_of(made))
        for one, expected in zip(some, whole.of(rows), strict=True):
            torch.testing.assert_close(one, expected, rtol=1e-4, atol=1e-5)
        assert torch.equal(other, lucky[rows])


def test_rows_choose_the_head() -> None:
    made = target(linear(), Linf("0.1"))
    heads, _ = binarize(made, features_of(made))
    rows = torch.tensor([4, 4, 17])
    with torch.no_grad():
        some = Binarized(features_of(made), heads)(made.x[rows], rows)
        one = Binarized(features_of(made), heads.of(rows))(made.x[rows], torch.arange(3))
    assert torch.equal(some, one) and torch.equal(some[0], some[1]) and some.dtype == torch.float64


def test_random_points_that_solve_a_task_are_noticed() -> None:
    """With the one feature of the mean pixel, the surface is as good as the inside."""

    class Mean(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.flatten(1).mean(dim=1, keepdim=True)

    made = target(nn.Sequential(Mean(), nn.Linear(1, 2)).eval(), Linf("0.1"), count=100)
    heads, lucky = binarize(made, features_of(made))
    assert 0 < int(lucky.sum()) < 100 and not heads.separates.all()


def test_the_passes_are_counted() -> None:
    class Counting(nn.Module):
        seen = 0

        def forward(self, x: Tensor) -> Tensor:
            Counting.seen += len(x)
            return x

    made = target(nn.Sequential(Counting(), *linear()), Linf("0.1"))
    features = features_of(made)
    Counting.seen = 0
    heads, _ = binarize(made, features)
    assert Counting.seen == 20 * FORWARD and FORWARD == INNER_POINTS + 11
    assert isinstance(heads, Heads)
