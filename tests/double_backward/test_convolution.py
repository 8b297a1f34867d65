from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from soar import curvature, models, randomness
from soar.double_backward import FastDoubleBackward
from soar.losses import cross_entropy
from soar.objectives import OBJECTIVES
from soar.threat import Linf

CASES: dict[str, dict[str, Any]] = {
    "3x3": {"kernel_size": 3, "padding": 1},
    "no bias": {"kernel_size": 3, "bias": False},
    "1x1": {"kernel_size": 1},
    "strided": {"kernel_size": 3, "stride": 2, "padding": 1},
    "1x1 strided": {"kernel_size": 1, "stride": 2},
    "dilated": {"kernel_size": 3, "dilation": 2, "padding": 2},
    "grouped": {"kernel_size": 3, "groups": 2},
    "oblong": {"kernel_size": (1, 3), "stride": (2, 1), "padding": (0, 1)},
    "text padding": {"kernel_size": 3, "padding": "same"},
    "reflect": {"kernel_size": 3, "padding": 1, "padding_mode": "reflect"},
}


def network(options: dict[str, Any]) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        layers = [nn.Conv2d(2, 4, **options), nn.Tanh(), nn.Conv2d(4, 4, 1), nn.Tanh()]
        return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(16, 3)).double()


def images(dtype: torch.dtype = torch.float64) -> Tensor:
    return randomness.uniform(randomness.key(0, torch.arange(5), "x"), (2, 7, 6), dtype)


def penalized(model: nn.Module, x: Tensor, z: Tensor, y: Tensor) -> Tensor:
    """A loss like SOAR's: cross-entropy plus norms of gradients at two points."""

    def loss(points: Tensor) -> Tensor:
        return cross_entropy(model(points), y)

    values, g = curvature.input_gradient(loss, x, differentiable=True)
    product = curvature.difference_product(loss, x, g, z, 0.1, differentiable=True)
    return (values + product.flatten(1).square().sum(dim=1) + g.flatten(1).abs().sum(dim=1)).mean()


def gradients(model: nn.Module, context: AbstractContextManager[Any], dtype: torch.dtype) -> list[Tensor]:
    x, y = images(dtype), torch.tensor([0, 1, 2, 0, 1])
    z = randomness.normal(randomness.key(1, torch.arange(5), "z"), (2, 7, 6), dtype)
    model.zero_grad()
    with context:
        loss = penalized(model, x, z, y)
    loss.backward()
    found = [parameter.grad for parameter in model.parameters()]
    assert all(gradient is not None for gradient in found)
    return [gradient.clone() for gradient in found if gradient is not None]


@pytest.mark.parametrize("case", CASES)
def test_gradients_of_gradient_penalties_are_those_of_pytorch(case: str) -> None:
    model = network(CASES[case])
    plain = gradients(model, nullcontext(), torch.float64)
    fast = gradients(model, FastDoubleBackward(), torch.float64)
    for one, other in zip(plain, fast, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("case", ["3x3", "1x1 strided", "grouped"])
def test_in_single_precision_they_agree_too(case: str) -> None:
    model = network(CASES[case]).float()
    plain = gradients(model, nullcontext(), torch.float32)
    fast = gradients(model, FastDoubleBackward(), torch.float32)
    for one, other in zip(plain, fast, strict=True):
        assert (one - other).norm() <= 1e-4 * one.norm() + 1e-7


def test_exact_hessian_products_and_their_gradients_agree() -> None:
    model, x, y = network(CASES["3x3"]), images(), torch.tensor([0, 1, 2, 0, 1])

    def gradients(context: AbstractContextManager[Any]) -> list[Tensor]:
        model.zero_grad()
        with context:
            product = curvature.exact_product(
                lambda points: cross_entropy(model(points), y), x, torch.ones_like(x), differentiable=True
            )
        product.square().sum().backward()
        return [product.detach(), *(p.grad.clone() for p in model.parameters() if p.grad is not None)]

    for one, other in zip(gradients(nullcontext()), gradients(FastDoubleBackward()), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-12)


def test_predictions_and_ordinary_gradients_are_those_of_pytorch() -> None:
    model, x = network(CASES["strided"]), images()
    x.requires_grad_()

    def everything(context: AbstractContextManager[Any]) -> list[Tensor]:
        model.zero_grad()
        with context:
            logits = model(x)
            (gradient,) = torch.autograd.grad(logits.square().sum(), x, retain_graph=True)
        logits.square().sum().backward(inputs=list(model.parameters()))
        return [
            logits.detach(),
            gradient,
            *(p.grad.clone() for p in model.parameters() if p.grad is not None),
        ]

    for one, other in zip(everything(nullcontext()), everything(FastDoubleBackward()), strict=True):
        torch.testing.assert_close(one, other)


def test_the_context_is_really_used_and_really_left() -> None:
    model, x = network(CASES["3x3"]), images()
    with FastDoubleBackward():
        inside = model[0](x)  # type: ignore[index]
    outside = model[0](x)  # type: ignore[index]
    assert "_Convolution" in type(inside.grad_fn).__name__
    assert "_Convolution" not in type(outside.grad_fn).__name__


def test_a_forbidden_question_is_answered_loudly() -> None:
    model, x = network(CASES["3x3"]), images()
    weight = next(model.parameters())
    with FastDoubleBackward():
        (gradient,) = torch.autograd.grad(model(x).sum(), weight, create_graph=True)
    assert gradient.isnan().all()


@pytest.mark.parametrize("case", ["text padding"])
def test_what_is_not_ordinary_is_left_to_pytorch(case: str) -> None:
    layer = nn.Conv2d(2, 4, **CASES[case]).double()
    with FastDoubleBackward():
        batched, single = layer(images()), nn.Conv2d(2, 4, 3).double()(images()[0])
    assert "_Convolution" not in type(batched.grad_fn).__name__
    assert single.shape == (4, 5, 4)


def test_frozen_weights_cost_nothing_and_get_nothing() -> None:
    model, x = network(CASES["3x3"]), images()
    model.requires_grad_(False)
    x.requires_grad_()
    call: Callable[[Tensor], Tensor] = model
    with FastDoubleBackward():
        (gradient,) = torch.autograd.grad(call(x).square().sum(), x)
    (expected,) = torch.autograd.grad(call(x).square().sum(), x)
    torch.testing.assert_close(gradient, expected)


@pytest.mark.parametrize(
    "options",
    [
        {"kernel_size": 3, "padding": 1},
        {"kernel_size": 3, "stride": 2, "padding": 1},
        {"kernel_size": 1, "stride": 2},
        {"kernel_size": (1, 3), "stride": (2, 1), "padding": (0, 1)},
        {"kernel_size": 3, "dilation": 2, "padding": 2},
        {"kernel_size": 3, "groups": 2},
    ],
    ids=str,
)
@pytest.mark.parametrize("size", [4, 7])
def test_weight_gradients_of_small_and_large_maps_are_those_of_pytorch(
    options: dict[str, Any], size: int
) -> None:
    # Eight channels and more: PyTorch's own kernel for narrow strided 1x1 convolutions is not safe.
    layer = nn.Conv2d(8, 16, **options).double().to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    keys = randomness.key(0, torch.arange(3), "small maps")
    x = randomness.normal(keys, (8, size, size), torch.float64).to(memory_format=torch.channels_last)
    expected = torch.autograd.grad(layer(x).square().sum(), list(layer.parameters()))
    with FastDoubleBackward():
        y = layer(x)
    for one, other in zip(
        expected, torch.autograd.grad(y.square().sum(), list(layer.parameters())), strict=True
    ):
        torch.testing.assert_close(one, other)
        assert one.stride() == other.stride()


def test_images_that_ask_no_longer_get_no_gradient() -> None:
    model, x = network(CASES["3x3"]), images()
    asked, silent = x.clone().requires_grad_(), x.clone().requires_grad_()
    found = []
    for points in (asked, silent):
        model.zero_grad()
        with FastDoubleBackward():
            (g,) = torch.autograd.grad(model(points).square().sum(), points, create_graph=True)
        points.requires_grad_(points is asked)
        g.square().sum().backward()
        found.append([p.grad.clone() for p in model.parameters() if p.grad is not None])
    assert asked.grad is not None and silent.grad is None
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other)


NETWORKS: dict[str, tuple[str, dict[str, Any]]] = {
    "resnet10": ("resnet10", {"width": 8}),
    "wide_resnet": ("wide_resnet", {"depth": 10, "widen_factor": 1}),
    "resnet18 with batch norm": ("resnet18", {"width": 8, "norm": "batch"}),
    "cnn6": ("cnn6", {"width": 8, "hidden": 32}),
}


@pytest.mark.parametrize("objective", ["soar", "foar"])
@pytest.mark.parametrize("name", NETWORKS)
def test_whole_objectives_on_real_networks_have_the_gradients_of_plain_autograd(
    name: str, objective: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind, options = NETWORKS[name]
    shape = (3, 16, 16)
    keys = randomness.key(0, torch.arange(8), "real networks")
    x = randomness.uniform(keys, shape).to(memory_format=torch.channels_last)
    y = randomness.integers(keys, 10)
    # A scale of 1 makes curvature a large part of the loss. Gauss-Newton's product takes a third derivative,
    # which plain autograd gets wrong for batch norm; test_batch_norm.py has that one spelled out.
    has_norm = kind == "wide_resnet" or "norm" in options
    product = "finite-difference" if has_norm else "gauss-newton"
    chosen = {"loss_scale": 1.0, "hvp": product} if objective == "soar" else {}

    def gradients() -> list[Tensor]:
        # A fresh model each time: the start is found with running statistics, which the loss changes.
        model = models.build(kind, seed=0, image_shape=shape, options=options)
        model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        loss = OBJECTIVES.build(objective, chosen, model, Linf("8/255"), seed=0)(x, y, step=0).loss
        return list(torch.autograd.grad(loss, list(model.parameters())))

    fast = gradients()
    monkeypatch.setattr(f"soar.objectives.{objective}.FastDoubleBackward", nullcontext)
    for one, other in zip(gradients(), fast, strict=True):
        assert (one - other).norm() <= 1e-4 * one.norm() + 1e-7
