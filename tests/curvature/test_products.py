from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from soar import curvature
from tests.attacks.problems import SHAPE, TinyNet, images, said
from tests.curvature.losses import D, dense_hessian, loss_of, normal


@given(st.integers(0, 100), st.floats(1e-3, 10))
def test_a_difference_is_exact_on_quadratics_whatever_the_step(seed: int, step: float) -> None:
    a, b = normal(seed, 5, 5), normal(seed + 1, 1, 5)[0]
    a = a + a.T

    def loss(x: Tensor) -> Tensor:
        return 0.5 * ((x @ a) * x).sum(dim=1) + x @ b

    x, z = normal(seed + 2, 3, 5), normal(seed + 3, 3, 5)
    values, g = curvature.input_gradient(loss, x)
    torch.testing.assert_close(values, loss(x))
    torch.testing.assert_close(g, x @ a + b)
    torch.testing.assert_close(curvature.difference_product(loss, x, g, z, step), z @ a, rtol=1e-6, atol=1e-8)
    torch.testing.assert_close(curvature.exact_product(loss, x, z), z @ a)


def test_products_of_a_smooth_network_against_its_dense_hessian() -> None:
    model, x = TinyNet(), images(4)
    y = said(model, x)
    loss, z = loss_of(model, y), normal(1, 4, *SHAPE)
    _, g = curvature.input_gradient(loss, x)
    exact = curvature.exact_product(loss, x, z)
    for i in range(4):
        dense = dense_hessian(loss_of(model, y[i : i + 1]), x[i : i + 1])
        torch.testing.assert_close(exact[i].flatten(), dense @ z[i].flatten())
    errors = [
        (curvature.difference_product(loss, x, g, z, h) - exact).norm() / exact.norm()
        for h in (1e-2, 1e-3, 1e-4)
    ]
    assert errors[0] < 0.1
    for coarse, fine in pairwise(errors):
        assert fine < 0.2 * coarse, "the error falls with the step"


def test_gauss_newton_is_exact_between_kinks_and_not_for_curved_logits() -> None:
    x, y = images(4), torch.tensor([0, 1, 2, 0])
    z = normal(3, 4, *SHAPE)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        kinked = nn.Sequential(nn.Flatten(), nn.Linear(D, 8), nn.ReLU(), nn.Linear(8, 3)).double()
        smooth = nn.Sequential(nn.Flatten(), nn.Linear(D, 8), nn.Tanh(), nn.Linear(8, 3)).double()
    torch.testing.assert_close(
        curvature.gauss_newton_product(kinked, x, z), curvature.exact_product(loss_of(kinked, y), x, z)
    )
    half, whole = (
        curvature.gauss_newton_product(smooth, x, z),
        curvature.exact_product(loss_of(smooth, y), x, z),
    )
    assert not torch.allclose(half, whole, rtol=0.01)
    p = smooth(x).softmax(dim=1)
    for i in range(4):
        jacobian = torch.autograd.functional.jacobian(lambda v: smooth(v[None])[0], x[i]).reshape(3, D)
        middle = torch.diag(p[i]) - p[i][:, None] * p[i][None]
        expected = jacobian.T @ middle @ jacobian @ z[i].flatten()
        torch.testing.assert_close(half[i].flatten(), expected)


def test_logistic_regression_has_the_gradient_and_curvature_of_eq_12() -> None:
    w, x = normal(1, 1, D)[0], normal(2, 6, D)
    y = torch.tensor([0, 1, 0, 1, 1, 0])
    f = (x @ w).sigmoid()

    def loss(points: Tensor) -> Tensor:
        logit = points @ w
        return nn.functional.softplus(logit) - y * logit

    r, u = f - y, f * (1 - f)
    _, g = curvature.input_gradient(loss, x)
    torch.testing.assert_close(g, r[:, None] * w)
    z = normal(3, 6, D)
    torch.testing.assert_close(curvature.exact_product(loss, x, z), u[:, None] * (z @ w)[:, None] * w)


@pytest.mark.parametrize("kind", ["difference", "exact", "gauss-newton"])
def test_products_can_be_differentiated_by_the_weights(kind: str) -> None:
    model, x = TinyNet(classes=3), images(2)
    y, z = said(model, x), normal(1, 2, *SHAPE)
    weight = next(model.parameters())

    def penalty() -> Tensor:
        loss = loss_of(model, y)
        _, g = curvature.input_gradient(loss, x, differentiable=True)
        if kind == "difference":
            product = curvature.difference_product(loss, x, g, z, 0.05, differentiable=True)
        elif kind == "exact":
            product = curvature.exact_product(loss, x, z, differentiable=True)
        else:
            product = curvature.gauss_newton_product(model, x, z, differentiable=True)
        return product.square().sum()

    (gradient,) = torch.autograd.grad(penalty(), weight)
    nudge = normal(9, 1, *weight.shape)[0]
    h = 1e-5
    with torch.no_grad():
        weight.add_(h * nudge)
        above = penalty().item()
        weight.sub_(2 * h * nudge)
        below = penalty().item()
        weight.add_(h * nudge)
    assert float((gradient * nudge).sum()) == pytest.approx((above - below) / (2 * h), rel=1e-4)


def test_a_linear_loss_has_no_curvature() -> None:
    x = images(2)
    assert not curvature.exact_product(lambda v: v.flatten(1).sum(dim=1), x, x).any()


def test_derivatives_along_a_direction_are_those_of_the_dense_jacobian() -> None:
    model, x, z = TinyNet(), images(3), normal(5, 3, *SHAPE)
    values, along = curvature.logits_along(model, x, z)
    torch.testing.assert_close(values, model(x))
    for i in range(3):
        jacobian = torch.autograd.functional.jacobian(model, x[i : i + 1])
        assert isinstance(jacobian, Tensor)
        torch.testing.assert_close(along[i], jacobian.flatten(2)[0].reshape(-1, D) @ z[i].flatten())


def test_logits_that_ignore_the_image_have_no_derivative() -> None:
    values, along = curvature.logits_along(lambda x: torch.ones(len(x), 3), images(2), images(2))
    assert torch.equal(along, torch.zeros_like(values))
