"""SOAR with a penalty on a part of every batch: the same in expectation, with the loss of the whole batch."""

from __future__ import annotations

import copy
from itertools import combinations
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from soar.losses import cross_entropy
from soar.objectives import SOAR, Objective, Output
from soar.threat import Linf
from tests.attacks.problems import TinyNet, images, said

COUNT = 5
THREAT = Linf(0.1)
# Every way to choose 2 of 5 examples; ceil(0.3 x 5) = 2.
SHARE, PARTS = 0.3, list(combinations(range(COUNT), 2))


def problem() -> tuple[TinyNet, Tensor, Tensor]:
    model, x = TinyNet(), images(COUNT)
    return model, x, said(model, x)


def with_batch_norm() -> tuple[nn.Module, Tensor, Tensor]:
    model, x, y = problem()
    norm = nn.BatchNorm2d(1).double()
    nn.init.constant_(norm.bias, 0.2)
    return nn.Sequential(norm, model), x, y


def in_order(objective: Objective, x: Tensor, y: Tensor, first: tuple[int, ...]) -> Output:
    """The output for a batch that begins with these examples; each keeps its index, so its random numbers."""
    order = torch.tensor([*first, *(i for i in range(COUNT) if i not in first)])
    output: Output = objective(x[order], y[order], order, 3)
    return output._replace(logits=output.logits[order.argsort()])


def gradients(loss: Tensor, model: nn.Module) -> Tensor:
    return torch.cat([one.flatten() for one in torch.autograd.grad(loss, list(model.parameters()))])


@pytest.mark.parametrize("product", ["gauss-newton", "exact", "finite-difference"])
@pytest.mark.parametrize("options", [{}, {"num_directions": 2, "init": "zero"}, {"max_norm": 2.0}], ids=str)
def test_the_mean_over_all_parts_is_the_penalty_of_the_batch(product: Any, options: dict[str, Any]) -> None:
    model, x, y = problem()
    chosen: dict[str, Any] = {"hvp": product, "loss_scale": 1.0, **options}
    whole = in_order(SOAR(model, THREAT, **chosen), x, y, ())
    parts = [in_order(SOAR(model, THREAT, penalty_fraction=SHARE, **chosen), x, y, part) for part in PARTS]
    penalties = torch.stack([part.metrics["penalty"] for part in parts])
    assert penalties.std() > 1e-3, "the parts differ"
    torch.testing.assert_close(penalties.mean(), whole.metrics["penalty"], rtol=1e-12, atol=0)
    mean = torch.stack([gradients(part.loss, model) for part in parts]).mean(dim=0)
    torch.testing.assert_close(mean, gradients(whole.loss, model), rtol=1e-9, atol=1e-10)
    for part in parts:
        torch.testing.assert_close(part.logits, whole.logits)
        torch.testing.assert_close(part.metrics["cross_entropy"], whole.metrics["cross_entropy"])
    if "max_norm" in options:
        assert 0 < whole.metrics["clamped"] < 1


@pytest.mark.parametrize("product", ["gauss-newton", "finite-difference"])
def test_clipping_over_micro_batches_clips_the_mean_gradient_of_their_parts(product: Any) -> None:
    model, x, y = problem()
    options: dict[str, Any] = {"hvp": product, "loss_scale": 1.0, "init": "zero", "penalty_fraction": SHARE}
    plain, clipped = SOAR(model, THREAT, **options), SOAR(model, THREAT, penalty_grad_clip=0.01, **options)
    clipped.micro_batches = 2
    penalty, total = [], []
    for part in (slice(0, 3), slice(3, COUNT)):
        batch = (x[part], y[part], torch.arange(COUNT)[part], 0)
        loss = gradients(cross_entropy(model(x[part]), y[part]).mean(), model)
        penalty.append(gradients(plain(*batch).loss, model) - loss)
        total.append(gradients(clipped(*batch).loss, model) - loss)
    mean = torch.stack(penalty).mean(dim=0)
    assert mean.norm() > 0.02
    torch.testing.assert_close(torch.stack(total).mean(dim=0), 0.01 * mean / mean.norm())


@pytest.mark.parametrize("product", ["gauss-newton", "exact", "finite-difference"])
@pytest.mark.parametrize("kind", ["batch", "running"])
def test_batch_norm_normalizes_the_batch_as_one(kind: Any, product: Any) -> None:
    model, x, y = with_batch_norm()
    alone = copy.deepcopy(model)
    options: dict[str, Any] = {"init": "zero", "hvp": product, "batchnorm_stats": kind}
    found = in_order(SOAR(model, THREAT, penalty_fraction=SHARE, **options), x, y, ())
    logits = alone(x)
    torch.testing.assert_close(found.logits, logits.detach())
    torch.testing.assert_close(found.metrics["cross_entropy"], cross_entropy(logits, y).mean().detach())
    for name, value in alone.state_dict().items():
        torch.testing.assert_close(model.state_dict()[name], value)
    if kind == "running":
        alone.eval()
    penalty = SOAR(alone, THREAT, **options)(x[:2], y[:2], torch.arange(2), 3).metrics["penalty"]
    torch.testing.assert_close(found.metrics["penalty"], penalty)


def test_with_running_statistics_parts_stand_for_the_batch_despite_batch_norm() -> None:
    options: dict[str, Any] = {"init": "zero"}

    def penalty(part: tuple[int, ...], **more: Any) -> Tensor:
        model, x, y = with_batch_norm()
        return in_order(SOAR(model, THREAT, **options, **more), x, y, part).metrics["penalty"]

    mean = torch.stack([penalty(part, penalty_fraction=SHARE) for part in PARTS]).mean()
    torch.testing.assert_close(mean, penalty(()), rtol=1e-12, atol=0)
