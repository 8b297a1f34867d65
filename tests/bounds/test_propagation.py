"""What cannot be followed is refused by name, and what is changed in place stands for its new value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from soar.bounds import crown_margins, propagate
from soar.errors import UserError
from soar.threat import Linf

X = torch.rand(2, 6, generator=torch.Generator().manual_seed(0))
Y = torch.tensor([0, 1])
THREAT = Linf("0.1")


class Model(nn.Module):
    """Two layers with a function between them."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(1)
        self.first, self.inner, self.last = nn.Linear(6, 6), nn.Identity(), nn.Linear(6, 3)
        for parameter in self.parameters():
            parameter.data = torch.randn(parameter.shape, generator=generator)
        self.inner.forward = function  # type: ignore[method-assign, assignment]

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.last(self.inner(self.first(x)))
        return logits


class StraightThrough(torch.autograd.Function):
    """Its backward pass is not its derivative."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return F.relu(x) * -1.0

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        return gradients


def written_over(z: Tensor) -> Tensor:
    view = z.view(-1, 3, 2)
    z.mul_(0)
    return view.flatten(1)


def into_a_constant(z: Tensor) -> Tensor:
    whole = torch.zeros(2, 6)
    whole[:, :6] += z
    return F.relu(z) + whole


def given_out(z: Tensor) -> Tensor:
    out = torch.zeros(2, 6)
    torch.add(z, 1.0, out=out)
    return out + z


REFUSED: dict[str, tuple[Callable[[Tensor], Tensor], str]] = {
    "unknown": (torch.sin, "torch's `sin`, for which there is no bound in 'inner'"),
    "a branch": (lambda z: z if z.sum() > 0 else -z, "torch's `gt`"),
    "a value": (lambda z: z * z.max().item(), "torch's `max`"),
    "truth": (lambda z: z if z[0, 0].bool() else -z, "`bool`"),
    "numpy": (lambda z: torch.from_numpy(z.detach().numpy()), "`numpy`"),
    "a view of what was overwritten": (written_over, "another view of it was changed in place"),
    "a constant that is overwritten": (into_a_constant, "in place of a tensor that did not depend"),
    "the argument out": (given_out, "the argument out"),
    "half precision": (lambda z: z.to(torch.bfloat16).float(), "torch.bfloat16"),
    "whole numbers": (lambda z: z.to(torch.int32).float(), "torch.int32"),
    "autocast": (lambda z: autocast(z), "autocast"),
    "a division by what may be zero": (lambda z: z / z, "may be zero"),
    "a root of what may be zero": (lambda z: F.relu(z).sqrt(), "may be zero"),
    "dropout": (lambda z: F.dropout(z, 0.5, training=True), "dropout in training mode"),
    "a cube": (lambda z: z**3, "the power 3"),
    "weights of the image": (lambda z: F.linear(z, z), "weights that depend on the image"),
}


def autocast(z: Tensor) -> Tensor:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return F.linear(z, torch.eye(6)).float()


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_bound_is_refused_by_name_and_place(name: str) -> None:
    function, message = REFUSED[name]
    model = Model(function).requires_grad_(False)
    for bound in (lambda: propagate(model, X, THREAT), lambda: crown_margins(model, X, Y, THREAT)):
        with pytest.raises(UserError) as error:
            bound()
        assert message in str(error.value) and "in 'inner'" in str(error.value)
        assert "--method smoothing" in str(error.value)


def test_gradients_of_a_functions_own_are_not_taken_for_derivatives() -> None:
    with pytest.raises(UserError, match="a gradient of its own"):
        crown_margins(Model(StraightThrough.apply), X, Y, THREAT)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_compiled_scripts_are_refused() -> None:
    script = torch.jit.script(nn.Identity())
    with pytest.raises(UserError, match="TorchScript module"):
        propagate(nn.Sequential(script, nn.Linear(6, 3)), X, THREAT)


def test_outputs_must_be_logits_that_come_from_the_image() -> None:
    class Constant(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.zeros(len(x), 3)

    for model, message in (
        (Constant(), "outputs that do not come from the image"),
        (nn.Unflatten(1, (2, 3)), "expected logits of shape"),
    ):
        with pytest.raises(UserError, match=message):
            propagate(model, X, THREAT)
        with pytest.raises(UserError, match=message):
            crown_margins(model, X, Y, THREAT)


def test_hooks_are_removed_and_flags_restored_after_a_refusal() -> None:
    model = Model(torch.sin)
    with pytest.raises(UserError):
        crown_margins(model, X, Y, THREAT)
    assert not any(one._forward_hooks or one._forward_pre_hooks for one in model.modules())
    assert model.training and model.first.weight.requires_grad


SAME: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]] = {
    "detach": (lambda z: F.relu(z.detach()), F.relu),
    "data": (lambda z: F.relu(z.data), F.relu),
    "overwritten": (lambda z: F.relu_(z.flatten(1)), F.relu),
    "twice": (lambda z: z.add_(1.0).relu_().mul_(2.0), lambda z: 2 * F.relu(z + 1)),
    "metadata": (lambda z: z.reshape(len(z), z.shape[1]) + torch.zeros_like(z), lambda z: z),
}


def no_grad(z: Tensor) -> Tensor:
    with torch.no_grad():
        return F.relu(z)


@pytest.mark.parametrize("name", [*SAME, "no_grad"])
def test_ways_around_autograd_do_not_change_a_bound(name: str) -> None:
    function, plain = (no_grad, F.relu) if name == "no_grad" else SAME[name]
    for bound in (
        lambda model: propagate(model, X, THREAT).margins(Y),
        lambda model: crown_margins(model, X, Y, THREAT),
    ):
        torch.testing.assert_close(bound(Model(function)), bound(Model(plain)), rtol=1e-4, atol=1e-4)  # type: ignore[no-untyped-call]


def test_logits_changed_in_place_are_bounded_as_they_are_returned() -> None:
    class Shifted(nn.Module):
        def __init__(self, *, in_place: bool) -> None:
            super().__init__()
            self.inside, self.in_place = Model(F.relu), in_place

        def forward(self, x: Tensor) -> Tensor:
            logits: Tensor = self.inside(x)
            shift = torch.tensor([-5.0, 0.0, 5.0])
            return logits.add_(shift) if self.in_place else logits + shift

    given = [propagate(Shifted(in_place=flag), X, THREAT).margins(Y) for flag in (True, False)]
    torch.testing.assert_close(*given)


def test_freed_tensors_are_not_taken_for_new_ones() -> None:
    def many(z: Tensor) -> Tensor:
        for _ in range(50):
            constant = torch.ones(2, 6)
            z = (z * constant + torch.zeros(2, 6)).clone()
        return z

    torch.testing.assert_close(
        propagate(Model(many), X, THREAT).interval.upper,
        propagate(Model(lambda z: z), X, THREAT).interval.upper,
        rtol=1e-3,
        atol=1e-3,
    )
