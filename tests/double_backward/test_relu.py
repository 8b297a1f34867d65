from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from soar.double_backward import FastDoubleBackward
from soar.double_backward.relu import rectify


def numbers(count: int = 12) -> Tensor:
    return torch.linspace(-1.0, 1.0, count, dtype=torch.float64, requires_grad=True)


def test_values_and_derivatives_of_all_orders_are_known() -> None:
    x = numbers()
    y = rectify(x)
    assert y is not None
    (g,) = torch.autograd.grad(y.pow(3).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(g.sum(), x, create_graph=True)
    (third,) = torch.autograd.grad(second.sum(), x)
    positive = x.detach().clamp(min=0)
    torch.testing.assert_close(g.detach(), 3 * positive**2)
    torch.testing.assert_close(second.detach(), 6 * positive)
    torch.testing.assert_close(third, 6 * (x.detach() > 0).double())


def test_the_gradient_at_zero_is_that_of_pytorch() -> None:
    x = torch.zeros(3, requires_grad=True)
    ours = rectify(x)
    assert ours is not None
    (gradient,) = torch.autograd.grad(ours.sum(), x)
    (expected,) = torch.autograd.grad(x.relu().sum(), x)
    assert torch.equal(gradient, expected)


def test_backwards_it_makes_no_zeros_for_the_activation() -> None:
    x = numbers()
    y = rectify(x)
    assert y is not None
    (g,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    (gradient,) = torch.autograd.grad(g.sum(), x, allow_unused=True)
    assert gradient is None, "PyTorch gives zeros"


@pytest.mark.parametrize("call", [torch.relu, Tensor.relu, nn.functional.relu, nn.ReLU()])
def test_every_way_to_call_it_is_replaced(call: nn.Module) -> None:
    with FastDoubleBackward():
        inside = call(numbers())
    assert "_Rectifier" in type(inside.grad_fn).__name__


def test_in_place_is_left_to_pytorch() -> None:
    x = numbers().detach().clone()
    with FastDoubleBackward():
        nn.ReLU(inplace=True)(x)
    assert x.min() == 0
