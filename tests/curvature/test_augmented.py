from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from soar import curvature, randomness
from soar.curvature import Direction
from soar.losses import cross_entropy
from soar.theory.proposition_1 import CORRECTION, norm_bound
from tests.attacks.problems import SHAPE, TinyNet, images, said
from tests.curvature.losses import D, dense_hessian, loss_of, normal


@pytest.mark.parametrize("corner, scale", [(1.0, 1.0), (0.0, 1.0), (0.5, 0.1)])
def test_augmented_product_is_the_matrix_of_eq_6(corner: float, scale: float) -> None:
    model, x = TinyNet(), images(3)
    y = said(model, x)
    loss = loss_of(model, y)
    z = curvature.draw_direction(randomness.key(0, torch.arange(3), "z"), SHAPE, torch.float64)
    _, g = curvature.input_gradient(loss, x)
    hz = curvature.exact_product(loss, x, z.pixels)
    product = curvature.augmented_product(hz, g, z, corner=corner, scale=scale)
    for i in range(3):
        h = torch.zeros(D + 1, D + 1, dtype=torch.float64)
        h[:D, :D] = scale * dense_hessian(loss_of(model, y[i : i + 1]), x[i : i + 1])
        h[D, :D] = h[:D, D] = scale * g[i].flatten()
        h[D, D] = corner
        expected = h @ torch.cat([z.pixels[i].flatten(), z.last[i : i + 1]])
        torch.testing.assert_close(product.pixels[i].flatten(), expected[:D])
        torch.testing.assert_close(product.last[i], expected[D])
        torch.testing.assert_close(curvature.augmented_norm(product)[i], expected.norm())


@pytest.mark.parametrize("kind", ["difference", "exact", "gauss-newton"])
def test_values_are_the_same_for_one_example_and_for_many(kind: str) -> None:
    model, x = TinyNet(), images(128)
    y = said(model, x)
    keys = randomness.key(0, torch.arange(128), "z")

    def norm(rows: slice) -> Tensor:
        loss, points = loss_of(model, y[rows]), x[rows]
        z = curvature.draw_direction(keys[rows], SHAPE, torch.float64)
        _, g = curvature.input_gradient(loss, points)
        if kind == "difference":
            product = curvature.difference_product(loss, points, g, z.pixels, 0.01)
        elif kind == "exact":
            product = curvature.exact_product(loss, points, z.pixels)
        else:
            product = curvature.gauss_newton_product(model, points, z.pixels)
        return curvature.augmented_norm(curvature.augmented_product(product, g, z))

    alone = torch.cat([norm(slice(i, i + 1)) for i in (0, 17, 127)])
    torch.testing.assert_close(norm(slice(None))[[0, 17, 127]], alone, rtol=1e-6, atol=1e-9)


def test_a_flat_model_has_the_norm_of_the_corner_alone_and_a_finite_gradient() -> None:
    bias = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    scale = torch.zeros(1, dtype=torch.float64, requires_grad=True)

    def loss(x: Tensor) -> Tensor:
        logits = bias + scale * x.flatten(1)[:, :3]
        return cross_entropy(logits, torch.zeros(len(x), dtype=torch.int64))

    x = images(4)
    z = curvature.draw_direction(randomness.key(0, torch.arange(4), "z"), SHAPE, torch.float64)
    _, g = curvature.input_gradient(loss, x, differentiable=True)
    product = curvature.difference_product(loss, x, g, z.pixels, 0.01, differentiable=True)
    norm = curvature.augmented_norm(curvature.augmented_product(product, g, z))
    torch.testing.assert_close(norm, z.last.abs())
    (gradient,) = torch.autograd.grad(norm.sum(), scale)
    assert gradient.isfinite().all()
    zero = Direction(torch.zeros(1, 2, requires_grad=True), torch.zeros(1))
    (at_zero,) = torch.autograd.grad(curvature.augmented_norm(zero).sum(), zero.pixels)
    assert not at_zero.any()


def test_the_augmented_gauss_newton_product_in_one_go_is_the_one_from_parts() -> None:
    model, x, y = TinyNet(), images(4), torch.tensor([0, 1, 2, 0])
    z = Direction(normal(1, 4, *SHAPE), normal(2, 4))
    _, g = curvature.input_gradient(loss_of(model, y), x, differentiable=True)
    along = curvature.gauss_newton_product(model, x, z.pixels, differentiable=True)
    parts = curvature.augmented_product(along, g, z, corner=0.5, scale=0.1)
    logits, gradient, whole = curvature.gauss_newton_augmented(model, x, y, z, corner=0.5, scale=0.1)
    torch.testing.assert_close(logits, model(x))
    torch.testing.assert_close(gradient, g)
    torch.testing.assert_close(whole, parts)
    weights = list(model.parameters())
    gradients = [
        torch.autograd.grad(curvature.augmented_norm(product).sum(), weights, materialize_grads=True)
        for product in (whole, parts)
    ]
    torch.testing.assert_close(gradients[0], gradients[1])


def norms_of(h: Tensor, samples: int) -> Tensor:
    z = normal(5, samples, len(h))
    norms: Tensor = torch.linalg.vector_norm(z @ h.T, dim=1)
    return norms[None]


@pytest.mark.parametrize("rank, ratio", [(1, 0.798), (2, 0.88), (5, 0.95), (50, 0.995)])
def test_mean_norms_lie_between_the_proved_limits(rank: int, ratio: float) -> None:
    basis = torch.linalg.qr(normal(7, 60, 60))[0][:, :rank]
    h = basis @ basis.T
    norms = norms_of(h, 40_000)
    frobenius = math.sqrt(rank)
    assert norms.square().mean().sqrt().item() == pytest.approx(frobenius, rel=0.02)
    assert norms.mean().item() / frobenius == pytest.approx(ratio, abs=0.01)


@given(st.integers(0, 40), st.floats(0.05, 3))
def test_the_corrected_bounds_hold_for_random_quadratics(seed: int, radius: float) -> None:
    d = 6
    hessian, g = normal(seed, d, d), normal(seed + 1, 1, d)[0]
    hessian = hessian + hessian.T
    h = torch.zeros(d + 1, d + 1, dtype=torch.float64)
    h[:d, :d], h[d, :d], h[:d, d], h[d, d] = hessian, g, g, 1
    norms = norms_of(h, 4000)
    delta = normal(seed + 2, 2000, d)
    delta = radius * delta / delta.norm(dim=1, keepdim=True)
    reached = (delta @ g + 0.5 * ((delta @ hessian) * delta).sum(dim=1)).max()
    # Sampling errors of the norms stay below 5%.
    assert reached <= 1.05 * norm_bound(CORRECTION * norms.mean(), radius) + 0.05
    assert reached <= 1.05 * norm_bound(norms.square().mean().sqrt(), radius) + 0.05
