from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from soar.objectives import SOAR
from soar.objectives.penalty_clip import PenaltyClip
from soar.threat import Linf
from tests.attacks.problems import TinyNet, images, said


def length(gradients: list[Tensor]) -> float:
    return float(torch.cat([gradient.flatten() for gradient in gradients]).norm())


def problem() -> tuple[nn.Module, Tensor]:
    model = nn.Linear(3, 2).double()
    return model, torch.linspace(-1, 1, 12, dtype=torch.float64).reshape(4, 3)


@pytest.mark.parametrize("limit", [0.01, 1e6])
def test_value_is_kept_and_gradient_is_clipped(limit: float) -> None:
    model, x = problem()
    penalty = model(x).square().mean()
    plain = list(torch.autograd.grad(penalty, list(model.parameters()), retain_graph=True))
    stand_in, norm = PenaltyClip(limit).apply(penalty, model, step=0, micro_batches=1)
    assert stand_in.item() == penalty.item()
    assert float(norm) == pytest.approx(length(plain))
    (3 * stand_in).backward()
    found = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    for one, other in zip(found, plain, strict=True):
        torch.testing.assert_close(one, 3 * other * min(1.0, limit / length(plain)))


def test_micro_batches_add_up_to_the_clipped_gradient_of_the_whole_batch() -> None:
    model, x = problem()
    whole = PenaltyClip(0.05)
    whole.apply(model(x).square().mean(), model, step=7, micro_batches=1)[0].backward()
    expected = [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]
    model.zero_grad()
    parts = PenaltyClip(0.05)
    for step in (6, 7):  # what an earlier update did must not matter
        model.zero_grad()
        for part in x.split(1):
            stand_in, _ = parts.apply(model(part).square().mean(), model, step=step, micro_batches=4)
            (stand_in / 4).backward()
    for parameter, wanted in zip(model.parameters(), expected, strict=True):
        assert parameter.grad is not None
        torch.testing.assert_close(parameter.grad, wanted)
    assert length(expected) == pytest.approx(0.05)


def test_an_update_that_is_computed_twice_is_clipped_both_times() -> None:
    model, x = problem()
    PenaltyClip(0.05).apply(model(x).square().mean(), model, step=3, micro_batches=1)[0].backward()
    expected = [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]
    assert length(expected) == pytest.approx(0.05)
    parts = PenaltyClip(0.05)
    for _ in range(2):
        model.zero_grad()
        for part in x.split(2):
            stand_in, _ = parts.apply(model(part).square().mean(), model, step=3, micro_batches=2)
            (stand_in / 2).backward()
        for parameter, wanted in zip(model.parameters(), expected, strict=True):
            assert parameter.grad is not None
            torch.testing.assert_close(parameter.grad, wanted)


def test_the_loss_is_not_clipped_and_frozen_parameters_are_left_alone() -> None:
    model, x = TinyNet(), images(4)
    y = said(model, x)
    first = next(model.parameters())
    first.requires_grad_(False)
    clipped = SOAR(model, Linf(0.1), penalty_grad_clip=1e-3, loss_scale=1.0, init="zero")
    free = SOAR(model, Linf(0.1), loss_scale=1.0, init="zero")
    none = SOAR(model, Linf(0.1), penalty_weight=0.0, init="zero")
    rest = [parameter for parameter in model.parameters() if parameter.requires_grad]

    def gradients(objective: SOAR) -> list[Tensor]:
        return list(torch.autograd.grad(objective(x, y, step=0).loss, rest))

    loss_only = gradients(none)
    gained = [one - other for one, other in zip(gradients(clipped), loss_only, strict=True)]
    unclipped = [one - other for one, other in zip(gradients(free), loss_only, strict=True)]
    assert length(gained) == pytest.approx(1e-3, rel=1e-6)
    for one, other in zip(gained, unclipped, strict=True):
        torch.testing.assert_close(one, other * 1e-3 / length(unclipped), rtol=1e-5, atol=1e-10)
    assert first.grad is None


def test_the_penalty_is_differentiated_only_once() -> None:
    model, x = problem()
    calls = []

    class Watched(torch.autograd.Function):
        @staticmethod
        def forward(ctx: object, value: Tensor) -> Tensor:
            return value.clone()

        @staticmethod
        def backward(ctx: object, *gradients: Tensor) -> Tensor:
            calls.append(1)
            return gradients[0]

    penalty: Tensor = Watched.apply(model(x).square().mean())  # type: ignore[no-untyped-call]
    PenaltyClip(1.0).apply(penalty, model, step=0, micro_batches=1)[0].backward()
    assert len(calls) == 1
