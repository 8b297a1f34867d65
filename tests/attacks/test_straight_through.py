from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import soar
from soar.attacks import straight_through
from soar.errors import UserError
from soar.prediction import predict
from soar.threat import Linf
from tests.attacks.problems import OUTPUTS, Answering
from tests.evaluation.checks.made import SHAPE, Linear, images, shared


class Rounded(nn.Module):
    """Keep some levels of each pixel, in one of the ways that lose the gradient."""

    def __init__(self, how: str = "round", levels: int = 50) -> None:
        super().__init__()
        self.how, self.levels = how, levels

    def forward(self, x: Tensor) -> Tensor:
        if self.how == "no grad":
            with torch.no_grad():
                return (self.levels * x).round() / self.levels
        if self.how == "in place":
            return x.mul_(self.levels).round_().div_(self.levels)
        y = (self.levels * (x.detach() if self.how == "detach" else x)).round() / self.levels
        return torch.from_numpy(y.detach().numpy()) if self.how == "numpy" else y


class Square(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.square()


WAYS = ["round", "no grad", "in place", "detach", "numpy"]


def defended(how: str = "round") -> nn.Sequential:
    return nn.Sequential(Rounded(how), Linear())


@pytest.mark.parametrize("kind", OUTPUTS)
def test_logits_are_found_among_other_outputs(kind: str) -> None:
    model, x = Answering(kind), torch.rand(2, 1, 3, 4)
    found = straight_through(nn.Sequential(Rounded(), model), {"0": None})(x)
    assert torch.equal(found, Answering()(Rounded()(x)))


def weight(model: nn.Sequential) -> Tensor:
    return dict(model.named_parameters())["1.weight"].detach()


@pytest.mark.parametrize("how", WAYS)
def test_a_rounding_defense_falls(how: str) -> None:
    made = shared(Linear(), count=60).target
    model = defended(how)
    labels = predict(model, made.images).argmax(dim=1)
    data = made.images, labels
    masked = soar.evaluate(model, data, made.threat, "pgd", check=False).worst_case
    found = soar.evaluate(straight_through(model, {"0": None}), data, made.threat, "pgd", check=False)
    assert masked > 0.8 and found.accuracy("clean") == 1
    # A linear model loses half of the images at this radius; rounding moves the border by little.
    assert found.worst_case == pytest.approx(0.5, abs=0.06)


@pytest.mark.parametrize("how", WAYS)
def test_the_gradient_is_that_of_the_replacement_and_the_output_that_of_the_model(how: str) -> None:
    model = defended(how).double()
    x = images(5).double().requires_grad_()
    for replacement, factor in ((None, torch.ones_like(x)), (Square(), 2 * x.detach())):
        logits = straight_through(model, {"0": replacement})(x.clone())
        assert torch.equal(logits, predict(model, x.detach()))
        (gradient,) = torch.autograd.grad(logits[:, 1].sum(), x)
        torch.testing.assert_close(gradient, weight(model)[1] * factor)


def test_it_can_be_differentiated_twice() -> None:
    x = images(2).double().requires_grad_()
    logits = straight_through(defended().double(), {"0": Square()})(x)
    (gradient,) = torch.autograd.grad(logits[:, 0].sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(gradient.sum(), x)
    expected = 2 * weight(defended().double())[0]
    torch.testing.assert_close(second, expected.expand_as(second))


class Twice(nn.Module):
    """A module inside a block without gradients, called twice."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.linear = nn.Sequential(Rounded()), Linear()

    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            x = self.inner(x)
        logits: Tensor = self.linear(self.inner(2 * x))
        return logits


def test_a_module_may_be_called_twice_and_within_a_block_without_gradients() -> None:
    model, x = Twice(), images(3).requires_grad_()
    (gradient,) = torch.autograd.grad(straight_through(model, {"inner.0": None})(x)[:, 0].sum(), x)
    torch.testing.assert_close(gradient, 2 * model.linear.weight.detach()[0].expand_as(gradient))


def test_the_model_is_not_changed() -> None:
    model, x = defended(), images(3).requires_grad_()
    wrapped = straight_through(model, {"0": None})
    wrapped(x)
    assert not any(one._forward_hooks or one._forward_pre_hooks for one in model.modules())
    assert {id(one) for one in wrapped.parameters()} == {id(one) for one in model.parameters()}
    assert float(torch.autograd.grad(model(x)[:, 0].sum(), x)[0].abs().sum()) == 0
    assert not predict(wrapped, images(3)).requires_grad


@pytest.mark.parametrize(
    ("replacement", "message"),
    [
        ({"1.wait": None}, "unknown module '1.wait' (replacement)"),
        ({"quantise": None}, "did you mean 'quantize'?"),
        ({}, "expected modules by name"),
        (["quantize"], "expected modules by name"),
        ({"quantize": 3}, "expected a torch.nn.Module"),
        ({"": None}, "unknown module"),
    ],
)
def test_mistakes_are_named(replacement: Any, message: str) -> None:
    model = nn.Sequential()
    model.add_module("quantize", Rounded())
    model.add_module("linear", Linear())
    with pytest.raises(UserError) as error:
        straight_through(model, replacement)
    assert message in str(error.value) and "\n" not in str(error.value)


def test_another_shape_is_refused() -> None:
    with pytest.raises(UserError, match=r"returns shape .* replacement shape"):
        straight_through(defended(), {"0": nn.Flatten()})(images(2))
    with pytest.raises(UserError, match="replacement: module '0' takes no tensor"):
        straight_through(nn.Sequential(nn.Identity()), {"0": None})("x")


def test_a_faster_copy_goes_through_it() -> None:
    wrapped = straight_through(nn.Sequential(Rounded(), nn.Flatten(), nn.Linear(36, 3)), {"0": None})
    x = images(20)
    labels = predict(wrapped, x).argmax(dim=1)
    assert x.shape[1:] == SHAPE
    assert soar.evaluate(wrapped, (x, labels), Linf("0.2"), "pgd", check=False).worst_case < 1
