from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from soar import randomness
from soar.objectives import CURE, Standard, check_objective
from soar.threat import L2, Linf, Threat
from tests.attacks.problems import SHAPE, Linear, TinyNet, images, said
from tests.objectives import shared
from tests.objectives.shared import THREATS, for_threats

D = math.prod(SHAPE)


class Quadratic(shared.ExactLoss):
    """Two classes, and for class 0 a cross-entropy of exactly x^T A x / 2 + b^T x + 10."""

    def __init__(self) -> None:
        super().__init__()
        keys = randomness.key(0, torch.arange(D + 1), "quadratic")
        numbers = randomness.normal(keys, (D,), torch.float64) / 4
        self.matrix = nn.Parameter(numbers[:D] + numbers[:D].T)
        self.slope = nn.Parameter(numbers[D])

    def loss(self, x: Tensor) -> Tensor:
        flat = x.flatten(1)
        return (flat @ self.matrix * flat).sum(dim=1) / 2 + flat @ self.slope + 10


def problem(count: int = 6) -> tuple[TinyNet, Tensor, Tensor]:
    """Images of which some have a label that the model does not give."""
    model, x = TinyNet(), images(count)
    y = said(model, x)
    y[1::3] = (y[1::3] + 1) % 5
    return model, x, y


def unit(slope: Tensor, threat: Threat) -> Tensor:
    v = slope.sign() if isinstance(threat, Linf) else slope
    return v / v.square().sum().sqrt()


def penalties(
    model: nn.Module, x: Tensor, y: Tensor, threat: Threat, weight: float, h: float
) -> tuple[Tensor, Tensor]:
    """Cross-entropy and penalty of each example by itself."""
    values, found = [], []
    for i in range(len(y)):
        here = x[i].clone().requires_grad_()
        values.append(shared.loss_of(model, here, y[i]))
        (slope,) = torch.autograd.grad(values[-1], here, create_graph=True)
        there = (x[i] + h * unit(slope.detach(), threat)).requires_grad_()
        (further,) = torch.autograd.grad(shared.loss_of(model, there, y[i]), there, create_graph=True)
        found.append(weight * (further - slope).square().sum())
    return torch.stack(values), torch.stack(found)


@for_threats
@pytest.mark.parametrize("options", [{}, {"penalty_weight": 0.3, "fd_step": 0.2}], ids=str)
def test_loss_and_gradient_are_the_formula_written_out(threat: Threat, options: dict[str, Any]) -> None:
    model, x, y = problem()
    found = CURE(model, threat, **options)(x, y)
    values, extra = penalties(
        model, x, y, threat, options.get("penalty_weight", 4.0), options.get("fd_step", 1.5)
    )
    expected = (values + extra).sum() / 6
    shared.assert_same_loss_and_gradients(model, found.loss, expected)
    torch.testing.assert_close(found.metrics["penalty"], extra.detach().mean())
    torch.testing.assert_close(found.logits, model(x).detach())


@for_threats
@pytest.mark.parametrize("h", [0.01, 0.5])
def test_a_quadratic_loss_gives_the_hessian_times_the_step(threat: Threat, h: float) -> None:
    model, x, y = Quadratic(), images(5), torch.zeros(5, dtype=torch.int64)
    found = CURE(model, threat, penalty_weight=2.0, fd_step=h)(x, y).loss
    slopes = (x.flatten(1) @ model.matrix + model.slope).detach()
    z = torch.stack([unit(slope, threat) for slope in slopes])
    change = h * z @ model.matrix
    expected = (model.loss(x) + 2.0 * change.square().sum(dim=1)).mean()
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=0)
    (ours,) = torch.autograd.grad(found, model.matrix)
    (theirs,) = torch.autograd.grad(expected, model.matrix)
    # The loss looks at the symmetric part alone.
    torch.testing.assert_close(ours + ours.T, theirs + theirs.T, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("threat, dual", [(Linf("0.05"), 1), (L2("0.2"), 2)], ids=str)
@pytest.mark.parametrize("h", [1e-3, 0.2, 1.5])
def test_logistic_regression_gives_the_closed_form(threat: Threat, dual: int, h: float) -> None:
    # The gradient is s(u) v with u = v^T x, and a step of h uphill adds h v^T z to u.
    model, x, y = shared.linear_problem()
    v, u = shared.logistic(model, x, y)
    length = torch.linalg.vector_norm(v, ord=dual, dim=1) / (math.sqrt(D) if dual == 1 else 1)
    change = ((u + h * length).sigmoid() - u.sigmoid()) ** 2 * v.square().sum(dim=1)
    found = CURE(model, threat, fd_step=h)(x, y)
    torch.testing.assert_close(found.metrics["penalty"], 4 * change.mean().detach(), rtol=1e-9, atol=0)
    torch.testing.assert_close(found.loss, (u.exp().log1p() + 4 * change).mean(), rtol=1e-9, atol=0)
    if h == 1e-3:
        # Near the image the change is h H z with H = p (1 - p) v v^T.
        curvature = u.sigmoid() * (1 - u.sigmoid()) * length
        near = h**2 * curvature**2 * v.square().sum(dim=1)
        torch.testing.assert_close(change, near, rtol=1e-2, atol=0)


def test_gradient_agrees_with_finite_differences_through_the_whole_objective() -> None:
    model, x, y = problem()
    objective = CURE(model, Linf("0.05"))
    shared.assert_same_as_finite_differences(model, lambda: objective(x, y).loss, 1e-6)


@for_threats
def test_the_penalty_does_not_depend_on_the_size_of_the_batch(threat: Threat) -> None:
    model, x, y = problem(8)
    objective = CURE(model, threat)
    whole = objective(x, y)
    alone = [objective(x[i : i + 1], y[i : i + 1]) for i in range(8)]
    for name, value in whole.metrics.items():
        torch.testing.assert_close(value, torch.stack([one.metrics[name] for one in alone]).mean())
    shared.assert_same_gradients(model, whole.loss, torch.stack([one.loss for one in alone]).mean())
    repeated = objective(x[:1].expand(8, *SHAPE), y[:1].expand(8))
    torch.testing.assert_close(repeated.metrics["penalty"], alone[0].metrics["penalty"])


@settings(max_examples=15)
@given(st.floats(0.01, 1), st.floats(-5, 5), st.sampled_from([Linf, L2]))
def test_neither_eps_nor_a_shift_of_all_logits_matters(eps: float, shift: float, kind: type[Threat]) -> None:
    model, x, y = problem()
    expected = CURE(model, kind("0.1"))(x, y).loss
    torch.testing.assert_close(CURE(model, kind(eps))(x, y).loss, expected)
    last = model.layers[3]
    assert isinstance(last, nn.Linear)
    last.bias.data.add_(shift)
    torch.testing.assert_close(CURE(model, kind("0.1"))(x, y).loss, expected)


def test_the_norm_matters() -> None:
    model, x, y = problem()
    one, other = (CURE(model, threat)(x, y).metrics["penalty"] for threat in THREATS)
    assert abs(one - other) > 0.01 * one


@for_threats
def test_a_flat_model_has_no_penalty_and_the_gradient_of_ordinary_training(threat: Threat) -> None:
    model, x = Linear(classes=3), images(4)
    model.weight.data.zero_()
    y = torch.tensor([0, 1, 2, 0])
    found = CURE(model, threat)(x, y)
    assert found.metrics["penalty"] == 0 and found.loss.item() == pytest.approx(math.log(3))
    shared.assert_same_gradients(model, found.loss, Standard(model)(x, y).loss)


def test_a_weight_of_nothing_is_ordinary_training() -> None:
    model, x, y = problem()
    ours = CURE(model, Linf(0.1), penalty_weight=0)(x, y).loss
    shared.assert_same_loss_and_gradients(model, ours, Standard(model)(x, y).loss)


def test_the_step_grows_linearly() -> None:
    model, x, y = problem()
    objective = CURE(model, Linf(0.1), fd_step=2.0, fd_warmup_steps=4)
    assert [objective.length(step) for step in range(6)] == [0.5, 1.0, 1.5, 2.0, 2.0, 2.0]
    assert [CURE(model, Linf(0.1), fd_step=2.0).length(step) for step in (0, 9)] == [2.0, 2.0]
    for step, h in ((0, 0.5), (2, 1.5), (7, 2.0)):
        expected = CURE(model, Linf(0.1), fd_step=h)(x, y).loss
        torch.testing.assert_close(objective(x, y, step=step).loss, expected)


def test_calls_without_a_step_count_for_the_ramp() -> None:
    model, x, y = problem()
    objective = CURE(model, Linf(0.1), fd_warmup_steps=3)
    found = [objective(x, y).metrics["penalty"] for _ in range(5)]
    assert found == [objective(x, y, step=step).metrics["penalty"] for step in range(5)]
    assert len(set(map(float, found))) == 3


def test_passes_are_the_arithmetic_of_the_method() -> None:
    assert shared.modes_of(CURE) == [True, True]


def test_each_forward_pass_is_differentiated_twice() -> None:
    assert shared.passes_of(CURE) == (2, 4)


def test_the_pass_at_the_image_counts_for_batch_norm() -> None:
    shared.assert_only_the_image_counts_for_batch_norm(CURE)


@pytest.mark.parametrize(
    "options", [{"penalty_weight": 0.5, "fd_step": 0.1}, {"fd_warmup_steps": 5}], ids=str
)
def test_every_option_keeps_the_contract(options: dict[str, Any]) -> None:
    check_objective(lambda model, threat: CURE(model, threat, **options))


def test_autocast_around_it_changes_nothing() -> None:
    shared.assert_autocast_changes_nothing(CURE, problem())


@for_threats
def test_smoothed_labels_change_the_classification_and_nothing_else(threat: Threat) -> None:
    model, x, y = problem()
    seen = shared.assert_smoothing_changes_the_classification_alone(CURE(model, threat), x, x, y, "penalty")
    torch.testing.assert_close(seen.smoothed.loss, seen.soft + seen.plain.metrics["penalty"])


def test_metrics_add_up_to_the_loss() -> None:
    model, x, y = problem()
    found = CURE(model, L2("0.2"))(x, y)
    metrics = found.metrics
    torch.testing.assert_close(metrics["cross_entropy"] + metrics["penalty"], found.loss.detach())
    leaf = x.clone().requires_grad_()
    p = model(leaf).softmax(dim=1)
    total = torch.stack([-p[i, y[i]].log() for i in range(6)]).sum()
    (slopes,) = torch.autograd.grad(total, leaf)
    lengths = slopes.flatten(1).square().sum(dim=1).sqrt()
    torch.testing.assert_close(metrics["gradient_norm"], lengths.mean())
    torch.testing.assert_close(metrics["confidence"], p.max(dim=1).values.mean().detach())


@shared.for_refusals(
    shared.negative("penalty_weight"), shared.zero("fd_step"), shared.negative("fd_warmup_steps")
)
def test_bad_values_are_refused_when_the_objective_is_made(options: dict[str, Any], message: str) -> None:
    shared.assert_refused(CURE, options, message)


def test_it_needs_a_threat() -> None:
    shared.assert_refused_without_a_threat(CURE)
