"""What is written out in place of PyTorch's own functions: the same values, statistics and derivatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd import forward_ad

from soar.curvature import logits_along, logits_along_backward
from soar.double_backward import FastDoubleBackward
from soar.double_backward.graph import obstacle, place_of, undifferentiable

X = torch.randn(3, 4, 5, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))

FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "softmax": lambda x: x.softmax(1),
    "softmax of another type": lambda x: torch.softmax(x.float(), -1, dtype=torch.float64),
    "large scores": lambda x: F.softmax(1000 * x, dim=2),
    "log_softmax": lambda x: F.log_softmax(1000 * x, dim=2),
    "logsumexp": lambda x: torch.logsumexp(1000 * x, (1, 3)),
    "logsumexp, kept": lambda x: x.logsumexp(2, keepdim=True),
    "masked logsumexp": lambda x: x.masked_fill(x < 0, -torch.inf).flatten(1).logsumexp(1),
    "hardsigmoid": lambda x: F.hardsigmoid(3 * x),
    "layer_norm": lambda x: F.layer_norm(x, (5, 5), x[0, 0], x[0, 1], 0.1),
    "instance_norm": lambda x: F.instance_norm(x, weight=x[0, :, 0, 0], bias=x[0, :, 0, 1], eps=0.1),
    "batch_norm": lambda x: F.batch_norm(x.flatten(2), None, None, training=True, eps=0.1),
    "cdist": lambda x: torch.cdist(x, x.flip(0), p=3.0),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_are_those_of_pytorch_with_and_without_forward_derivatives(name: str) -> None:
    expected = FUNCTIONS[name](X)
    with FastDoubleBackward():
        torch.testing.assert_close(FUNCTIONS[name](X), expected)
        with forward_ad.dual_level():
            torch.testing.assert_close(FUNCTIONS[name](X), expected)


def test_integers_and_other_types_are_left_to_pytorch() -> None:
    whole = torch.arange(4)
    with FastDoubleBackward(), forward_ad.dual_level():
        torch.testing.assert_close(whole.softmax(0, dtype=torch.float32), whole.float().softmax(0))
        torch.testing.assert_close(torch.logsumexp(whole, 0), torch.logsumexp(whole.float(), 0))
        out = torch.empty(4)
        assert torch.softmax(whole.float(), 0, out=out) is out
        with pytest.raises(RuntimeError, match="normalized_shape"):
            F.layer_norm(X, (3,))


@pytest.mark.parametrize(
    "layer",
    [
        nn.BatchNorm1d(20),
        nn.BatchNorm2d(4, affine=False),
        nn.InstanceNorm2d(4, track_running_stats=True),
        nn.InstanceNorm2d(4, track_running_stats=True, affine=True).eval(),
        nn.BatchNorm2d(4).eval(),
    ],
    ids=str,
)
def test_running_statistics_are_those_of_pytorch(layer: Any) -> None:
    layer.double()
    x = X.flatten(1, 2) if isinstance(layer, nn.BatchNorm1d) else X
    before = {name: value.clone() for name, value in layer.state_dict().items()}
    expected = layer(x)
    after = {name: value.clone() for name, value in layer.state_dict().items()}
    layer.load_state_dict(before)
    with FastDoubleBackward():
        torch.testing.assert_close(layer(x), expected)
    for name, value in after.items():
        torch.testing.assert_close(layer.state_dict()[name], value)


def test_hardsigmoid_works_in_place() -> None:
    x = X.clone()
    with FastDoubleBackward():
        assert F.hardsigmoid(x, inplace=True) is x
    torch.testing.assert_close(x, F.hardsigmoid(X))


def test_autocast_keeps_its_own_normalization() -> None:
    x = X.float().requires_grad_()
    with torch.autocast("cpu", torch.bfloat16), FastDoubleBackward():
        assert "NativeLayerNorm" in type(F.layer_norm(x, (5,)).grad_fn).__name__


def test_a_derivative_along_a_direction_is_the_same_forward_and_backward() -> None:
    def logits(x: Tensor) -> Tensor:
        return (x.flatten(1).sin() @ X.flatten(1).T).tanh()

    points, z = X.clone().requires_grad_(), X.flip(0)
    for one, other in zip(
        logits_along(logits, points, z), logits_along_backward(logits, points, z), strict=True
    ):
        torch.testing.assert_close(one, other)
    _, along = logits_along_backward(lambda x: 0 * x.detach().flatten(1) + points.sum(), points, z)
    assert along.shape == (3, 100)


def slope_of_slope(function: Callable[[Tensor], Tensor]) -> Tensor:
    x = X.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(function(x).square().sum(), x, create_graph=True)
    return gradient.square().sum()


def test_an_obstacle_is_found_without_a_backward_pass_where_there_is_none() -> None:
    assert obstacle(slope_of_slope(torch.tanh)) is None
    assert obstacle(torch.zeros(())) is None
    assert "hardsigmoid_backward" in str(obstacle(slope_of_slope(F.hardsigmoid)))
    assert "_cdist_backward" in str(obstacle(slope_of_slope(lambda x: torch.cdist(x, x.flip(0)))))
    x = X.clone().requires_grad_()
    found = obstacle(x.exp().mul_(2).sum())
    assert found is not None and "inplace operation" in found and "Hint" not in found
    assert str(undifferentiable("no")).startswith("model: cannot be differentiated twice (no); expected")
    assert x.grad is None, "nothing is left behind"


def test_an_error_is_placed_in_the_innermost_module() -> None:
    class Refusing(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            raise NotImplementedError

    model = nn.Sequential(nn.Flatten(), nn.Sequential(Refusing()))
    with pytest.raises(NotImplementedError) as told:
        model(X)
    assert place_of(told.value, model) == ", in 1.0 (Refusing)"
    assert place_of(ValueError(), model) == ""
