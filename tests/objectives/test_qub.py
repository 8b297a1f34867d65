from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from soar import randomness
from soar.objectives import NFGSM, QUB, Standard, check_objective
from soar.objectives.qub import quadratic_bound
from soar.threat import L2, Threat
from tests.objectives import shared
from tests.objectives.shared import INDEX, STEP, for_threats, problem
from tests.objectives.test_nfgsm import found_by


def written_out(z: Tensor, moved: Tensor, label: int, smoothing: float = 0.0) -> Tensor:
    """The bound of one example, class by class."""
    p, classes = z.exp() / z.exp().sum(), len(z)
    t = [smoothing / classes + (1 - smoothing) * (k == label) for k in range(classes)]
    loss = -torch.stack([t[k] * p[k].log() for k in range(classes)]).sum()
    slope = torch.stack([(moved[k] - z[k]) * (p[k] - t[k]) for k in range(classes)]).sum()
    return loss + slope + 0.25 * torch.stack([(moved[k] - z[k]) ** 2 for k in range(classes)]).sum()


@for_threats
@pytest.mark.parametrize("blend", [None, 0.0, 0.3])
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_loss_and_gradient_are_the_formula_written_out(
    threat: Threat, blend: float | None, smoothing: float
) -> None:
    model, x, y = problem()
    objective = QUB(model, threat, seed=2) if blend is None else QUB(model, threat, blend=blend, seed=2)
    objective.label_smoothing = smoothing
    found = objective(x, y, INDEX, STEP)
    points = found_by(NFGSM(model, threat, seed=2), x, y).points
    c = 1.0 if blend is None else blend
    z, moved = model(x), model(points)
    log_p = moved.softmax(dim=1).log()
    losses = []
    for i in range(6):
        reached = -(1 - smoothing) * log_p[i, y[i]] - smoothing * log_p[i].sum() / 5
        losses.append(c * written_out(z[i], moved[i], int(y[i]), smoothing) + (1 - c) * reached)
    shared.assert_same_loss_and_gradients(model, found.loss, torch.stack(losses).mean())
    torch.testing.assert_close(found.logits, moved.detach())


@given(st.integers(0, 10_000), st.floats(0.01, 30), st.floats(0.001, 30), st.floats(0, 1))
def test_it_is_never_below_the_cross_entropy_for_any_target(
    seed: int, size: float, move: float, smoothing: float
) -> None:
    key = randomness.key(seed, torch.arange(8), "logits")
    z = size * randomness.normal(key, (5,), torch.float64)
    moved = z + move * randomness.normal(key + 1, (5,), torch.float64)
    target = torch.eye(5, dtype=torch.float64)[seed % 5] * (1 - smoothing) + smoothing / 5
    bound = quadratic_bound(z, moved, target.expand(8, 5))
    reached = -(target * moved.log_softmax(dim=1)).sum(dim=1)
    assert (bound >= reached - 1e-9 * (1 + reached)).all()


def test_the_bound_is_as_tight_as_a_quadratic_can_be() -> None:
    # At equal logits of two classes and along (1, -1) the Hessian is exactly 1/2.
    z, target = torch.zeros(1, 2, dtype=torch.float64), torch.tensor([[1.0, 0.0]], dtype=torch.float64)
    for move in (1e-2, -1e-2):
        moved = z + move * torch.tensor([[1.0, -1.0]])
        reached = -moved.log_softmax(dim=1)[:, 0]
        assert 0 <= (quadratic_bound(z, moved, target) - reached).item() < 0.001 * move**2


@for_threats
def test_metrics_show_the_bound_above_the_loss_it_bounds(threat: Threat) -> None:
    model, x, y = problem()
    objective = QUB(model, threat)
    found = objective(x, y, INDEX, STEP)
    points = found_by(NFGSM(model, threat), x, y)
    torch.testing.assert_close(found.metrics["bound"], found.loss.detach())
    torch.testing.assert_close(
        found.metrics["cross_entropy"], Standard(model)(points.points, y).loss.detach()
    )
    assert found.metrics["bound"] > found.metrics["cross_entropy"] and found.metrics["alignment"].isnan()
    found.loss.backward()
    leaf = points.points.clone().requires_grad_()
    z = model(x).detach()
    bounds = [written_out(z[i], model(leaf)[i], int(y[i])) for i in range(6)]
    (further,) = torch.autograd.grad(torch.stack(bounds).sum(), leaf)
    expected = torch.nn.functional.cosine_similarity(points.gradient.flatten(1), further.flatten(1)).mean()
    torch.testing.assert_close(found.metrics["alignment"], expected)


def test_passes_are_the_arithmetic_of_the_method() -> None:
    assert shared.passes_of(QUB) == (3, 3)
    assert shared.modes_of(QUB) == [False, True, True]


def test_the_pass_at_the_image_counts_for_batch_norm() -> None:
    shared.assert_only_the_image_counts_for_batch_norm(QUB)


def test_bfloat16_logits_are_compared_in_float32() -> None:
    model, x, y = problem()
    plain = QUB(model.float(), L2("0.2"))(x.float(), y, INDEX, STEP).loss
    with torch.autocast("cpu", torch.bfloat16):
        inside = QUB(model, L2("0.2"))(x.float(), y, INDEX, STEP).loss
    assert inside.dtype == torch.float32
    torch.testing.assert_close(inside, plain, rtol=0.1, atol=0)


def test_every_option_keeps_the_contract() -> None:
    check_objective(lambda model, threat: QUB(model, threat, blend=0.5))


@shared.for_refusals(
    ({"blend": 1.5}, "objective.blend: got 1.5, expected from 0 to 1 (flag --objective.blend)"),
)
def test_bad_values_are_refused_when_the_objective_is_made(options: dict[str, Any], message: str) -> None:
    shared.assert_refused(QUB, options, message)


def test_it_needs_a_threat() -> None:
    shared.assert_refused_without_a_threat(QUB)
