from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from copy import deepcopy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from soar import curvature, randomness
from soar.double_backward import FastDoubleBackward
from soar.losses import cross_entropy

Y = torch.tensor([0, 1, 2, 0, 1])


class SpeltOut(nn.Module):
    """Batch norm of operations whose derivatives are beyond doubt."""

    def __init__(self, layer: nn.BatchNorm2d) -> None:
        super().__init__()
        self.weight, self.bias, self.eps = layer.weight, layer.bias, layer.eps

    def forward(self, x: Tensor) -> Tensor:
        centered = x - x.mean((0, 2, 3), keepdim=True)
        r = (centered.square().mean((0, 2, 3), keepdim=True) + self.eps).rsqrt()
        return centered * r * self.weight.view(1, -1, 1, 1) + self.bias.view(1, -1, 1, 1)


def network() -> nn.Sequential:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        first, second = nn.BatchNorm2d(4), nn.BatchNorm2d(3, eps=0.1)
        for parameter in (*first.parameters(), *second.parameters()):
            nn.init.normal_(parameter)
        layers = [nn.Conv2d(2, 4, 3, bias=False), first, nn.Tanh(), nn.Conv2d(4, 3, 3), second]
        return nn.Sequential(*layers, nn.Tanh(), nn.Flatten(), nn.Linear(12, 3)).double()


def spelled_out(model: nn.Sequential) -> nn.Sequential:
    copied = deepcopy(model)
    layers = [SpeltOut(layer) if isinstance(layer, nn.BatchNorm2d) else layer for layer in copied]
    return nn.Sequential(*layers)


def images() -> Tensor:
    return randomness.uniform(randomness.key(0, torch.arange(5), "x"), (2, 6, 6), torch.float64)


def direction() -> Tensor:
    return randomness.normal(randomness.key(1, torch.arange(5), "z"), (2, 6, 6), torch.float64)


def loss_of(model: nn.Module) -> Callable[[Tensor], Tensor]:
    return lambda x: cross_entropy(model(x), Y)


def difference(model: nn.Module) -> Tensor:
    values, g = curvature.input_gradient(loss_of(model), images(), differentiable=True)
    product = curvature.difference_product(loss_of(model), images(), g, direction(), 0.1, differentiable=True)
    return values.sum() + product.square().sum()


def exact(model: nn.Module) -> Tensor:
    return curvature.exact_product(loss_of(model), images(), direction(), differentiable=True).square().sum()


def gauss_newton(model: nn.Module) -> Tensor:
    return curvature.gauss_newton_product(model, images(), direction(), differentiable=True).square().sum()


def gradients(
    model: nn.Module, penalty: Callable[[nn.Module], Tensor], context: AbstractContextManager[Any]
) -> list[Tensor]:
    with context:
        value = penalty(model)
    parameters = list(model.parameters())
    return [value.detach(), *torch.autograd.grad(value, parameters)]


@pytest.mark.parametrize("penalty", [difference, exact, gauss_newton])
def test_penalties_and_their_gradients_are_those_of_the_spelled_out_layer(
    penalty: Callable[[nn.Module], Tensor],
) -> None:
    model = network()
    expected = gradients(spelled_out(model), penalty, nullcontext())
    for one, other in zip(expected, gradients(model, penalty, FastDoubleBackward()), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-8, atol=1e-9)


def test_predictions_statistics_and_ordinary_gradients_are_those_of_pytorch() -> None:
    plain, fast = network(), network()

    def everything(model: nn.Sequential, context: AbstractContextManager[Any]) -> list[Tensor]:
        with context:
            logits = model(images())
        found = torch.autograd.grad(logits.square().sum(), list(model.parameters()))
        return [logits.detach(), *found, *model.state_dict().values()]

    found = zip(everything(plain, nullcontext()), everything(fast, FastDoubleBackward()), strict=True)
    for one, other in found:
        torch.testing.assert_close(one, other)


def test_it_is_used_for_the_statistics_of_the_batch_only() -> None:
    layer = nn.BatchNorm2d(2).double()
    with FastDoubleBackward():
        trained = layer(images())
        evaluated = layer.eval()(images())
        without_weights = nn.BatchNorm2d(2, affine=False).double()(images().requires_grad_())
    assert "_BatchNorm" in type(trained.grad_fn).__name__
    assert "_BatchNorm" not in type(evaluated.grad_fn).__name__
    assert "_BatchNorm" not in type(without_weights.grad_fn).__name__


def test_a_forbidden_question_is_answered_loudly() -> None:
    layer, x = nn.BatchNorm2d(2).double(), images()
    with FastDoubleBackward():
        (gradient,) = torch.autograd.grad(layer(x).square().sum(), layer.weight, create_graph=True)
    assert gradient.isnan().all()


def test_the_layout_of_images_is_kept() -> None:
    layer = nn.BatchNorm2d(2)
    x = images().float().to(memory_format=torch.channels_last).requires_grad_()
    with FastDoubleBackward():
        (g,) = torch.autograd.grad(layer(x).pow(3).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(g.square().sum(), x)
    assert g.is_contiguous(memory_format=torch.channels_last)
    assert second.is_contiguous(memory_format=torch.channels_last)
