from __future__ import annotations

import pytest
import torch
from torch import Tensor

from soar import curvature, randomness
from soar.curvature import Direction
from soar.losses import cross_entropy
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


def test_a_flat_model_has_the_norm_of_the_corner_alone_and_a_finite_slope() -> None:
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
    (slope,) = torch.autograd.grad(norm.sum(), scale)
    assert slope.isfinite().all()
    zero = Direction(torch.zeros(1, 2, requires_grad=True), torch.zeros(1))
    (at_zero,) = torch.autograd.grad(curvature.augmented_norm(zero).sum(), zero.pixels)
    assert not at_zero.any()


def test_the_augmented_gauss_newton_product_in_one_go_is_the_one_from_parts() -> None:
    model, x, y = TinyNet(), images(4), torch.tensor([0, 1, 2, 0])
    z = Direction(normal(1, 4, *SHAPE), normal(2, 4))
    _, g = curvature.input_gradient(loss_of(model, y), x, differentiable=True)
    along = curvature.gauss_newton_product(model, x, z.pixels, differentiable=True)
    parts = curvature.augmented_product(along, g, z, corner=0.5, scale=0.1)
    logits, slope, whole = curvature.gauss_newton_augmented(model, x, y, z, corner=0.5, scale=0.1)
    torch.testing.assert_close(logits, model(x))
    torch.testing.assert_close(slope, g)
    torch.testing.assert_close(whole, parts)
    weights = list(model.parameters())
    slopes = [
        torch.autograd.grad(curvature.augmented_norm(product).sum(), weights, materialize_grads=True)
        for product in (whole, parts)
    ]
    torch.testing.assert_close(slopes[0], slopes[1])
