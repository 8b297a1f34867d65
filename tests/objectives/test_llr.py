from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from soar import randomness
from soar.objectives import LLR, Standard, check_objective
from soar.threat import L2, Linf, Threat
from tests.attacks.problems import SHAPE, TinyNet, images
from tests.objectives import shared
from tests.objectives.shared import INDEX, STEP, THREATS, for_threats, found_by, output_at, problem

D = math.prod(SHAPE)


class Bowl(shared.ExactLoss):
    """Two classes, and for class 0 a cross-entropy of exactly c ||x||^2 / 2 + b^T x + 10."""

    def __init__(self, curvature: float) -> None:
        super().__init__()
        self.curvature = nn.Parameter(torch.tensor(curvature, dtype=torch.float64))
        self.slope = nn.Parameter(randomness.normal(randomness.key(0, 0, "bowl"), (D,), torch.float64)[0])

    def loss(self, x: Tensor) -> Tensor:
        flat = x.flatten(1)
        return self.curvature * flat.square().sum(dim=1) / 2 + flat @ self.slope + 10


def start_of(threat: Threat, x: Tensor, seed: int = 0) -> Tensor:
    return threat.random_start(x, randomness.key(seed, INDEX, "llr start", STEP))


def parts(model: nn.Module, image: Tensor, label: Tensor, point: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Loss, error of its linear expansion and change that the expansion predicts, of one example."""
    leaf = image.clone().requires_grad_()
    value = shared.loss_of(model, leaf, label)
    (slope,) = torch.autograd.grad(value, leaf, create_graph=True)
    predicted = (slope * (point - image)).sum()
    return value, (shared.loss_of(model, point, label) - value - predicted).abs(), predicted.abs()


def searched(
    model: nn.Module, x: Tensor, y: Tensor, threat: Threat, steps: int = 10, seed: int = 0
) -> Tensor:
    """Where the error of the expansion at the image ends its climb."""
    expansions: list[tuple[Tensor, Tensor]] = []
    for image, label in zip(x, y, strict=True):
        here = image.clone().requires_grad_()
        value = shared.loss_of(model, here, label)
        (g,) = torch.autograd.grad(value, here)
        expansions.append((value.detach(), g))

    def error(i: int, point: Tensor) -> Tensor:
        value, g = expansions[i]
        return (shared.loss_of(model, point, y[i]) - value - (g * (point - x[i])).sum()).abs()

    return shared.climbed(error, x, start_of(threat, x, seed), threat, steps)


def written_out(model: nn.Module, x: Tensor, points: Tensor, y: Tensor, a: float, b: float) -> Tensor:
    losses = []
    for i in range(len(y)):
        value, violation, predicted = parts(model, x[i], y[i], points[i])
        losses.append(value + a * violation + b * predicted)
    return torch.stack(losses).sum() / len(y)


@for_threats
@pytest.mark.parametrize(
    "options", [{}, {"linearity_weight": 0.7, "gradient_weight": 0.2, "steps": 5, "seed": 4}], ids=str
)
def test_loss_and_gradient_are_the_formula_written_out(threat: Threat, options: dict[str, Any]) -> None:
    model, x, y = problem()
    found = LLR(model, threat, **options)(x, y, INDEX, STEP)
    a, b = options.get("linearity_weight", 4.0), options.get("gradient_weight", 3.0)
    points = searched(model, x, y, threat, options.get("steps", 10), options.get("seed", 0))
    shared.assert_same_loss_and_gradients(
        model, found.loss, written_out(model, x, points, y, a, b), rtol=1e-9
    )
    torch.testing.assert_close(found.logits, model(x).detach())


@for_threats
def test_the_search_expands_the_loss_of_eval_mode(threat: Threat) -> None:
    _, x, y = problem()
    model = shared.with_batch_norm()
    points = found_by(LLR(model, threat), x, y)
    model.eval()
    torch.testing.assert_close(points, searched(model, x, y, threat), rtol=0, atol=1e-9)


def test_the_loss_is_that_of_training_mode() -> None:
    _, x, y = problem()
    model = shared.with_batch_norm()
    objective = LLR(model, Linf("0.05"))
    points = found_by(objective, x, y)
    found = output_at(objective, points, x, y).loss
    leaf = x.clone().requires_grad_()
    values = -model(leaf).softmax(dim=1).log().gather(1, y[:, None])[:, 0]
    (g,) = torch.autograd.grad(values.sum(), leaf, create_graph=True)
    predicted = (g * (points - x)).flatten(1).sum(dim=1)
    reached = -model(points).softmax(dim=1).log().gather(1, y[:, None])[:, 0]
    expected = (values + 4 * (reached - values - predicted).abs() + 3 * predicted.abs()).mean()
    shared.assert_same_loss_and_gradients(model, found, expected, rtol=1e-9)


@for_threats
def test_a_linear_loss_has_no_violation(threat: Threat) -> None:
    model, x, y = Bowl(0.0), images(6), torch.zeros(6, dtype=torch.int64)
    objective = LLR(model, threat)
    found = objective(x, y, INDEX, STEP)
    assert found.metrics["violation"].item() == pytest.approx(0, abs=1e-12)
    delta = (found_by(objective, x, y) - x).flatten(1)
    expected = (model.loss(x) + 3 * (delta @ model.slope).abs()).mean()
    torch.testing.assert_close(found.loss, expected, rtol=1e-9, atol=0)


@pytest.mark.parametrize("threat, reach", [(Linf("0.05"), D * 0.05**2), (L2("0.2"), 0.2**2)], ids=str)
@pytest.mark.parametrize("curvature", [3.0, -3.0])
def test_the_worst_violation_of_a_round_bowl_is_found(threat: Threat, reach: float, curvature: float) -> None:
    # The error is |c| ||d||^2 / 2: largest in the corners of the cube, and all over the sphere.
    model, x, y = Bowl(curvature), images(6), torch.zeros(6, dtype=torch.int64)
    objective = LLR(model, threat, linearity_weight=0.5, gradient_weight=2.0)
    found = objective(x, y, INDEX, STEP)
    assert found.metrics["violation"].item() == pytest.approx(abs(curvature) * reach / 2, rel=1e-9)
    delta = (found_by(objective, x, y) - x).flatten(1)
    g = curvature * x.flatten(1) + model.slope
    predicted = (g * delta).sum(dim=1).abs()
    expected = (model.loss(x) + 2 * predicted).mean() + 0.5 * abs(curvature) * reach / 2
    torch.testing.assert_close(found.loss, expected, rtol=1e-9, atol=0)
    (slope,) = torch.autograd.grad(found.loss, model.curvature)
    # The violation grows with |c|, and so does the prediction by way of its gradient.
    by_hand = (
        x.flatten(1).square().sum(dim=1) / 2
        + 2 * (g * delta).sum(dim=1).sign() * (x.flatten(1) * delta).sum(dim=1)
    ).mean() + 0.5 * math.copysign(reach / 2, curvature)
    assert slope.item() == pytest.approx(by_hand.item(), rel=1e-7)


@pytest.mark.parametrize("threat, dual", [(Linf("0.1"), 1), (L2("0.3"), 2)], ids=str)
def test_logistic_regression_gives_the_closed_form(threat: Threat, dual: int) -> None:
    # The loss is softplus(u), u = v^T x, so the error is a function of v^T d, largest at an end.
    model, x, y = shared.linear_problem()
    v, u = shared.logistic(model, x, y)
    side = ((start_of(threat, x) - x).flatten(1) * v).sum(dim=1).sign().detach()
    t = side * threat.radius * torch.linalg.vector_norm(v, ord=dual, dim=1)
    violation = (u + t).exp().log1p() - u.exp().log1p() - u.sigmoid() * t
    predicted = (u.sigmoid() * t).abs()
    # In l2 it takes some steps until little of the start across v is left.
    found = LLR(model, threat, steps=60)(x, y, INDEX, STEP)
    rtol = 1e-9 if dual == 1 else 1e-5
    torch.testing.assert_close(found.metrics["violation"], violation.mean().detach(), rtol=rtol, atol=0)
    expected = (u.exp().log1p() + 4 * violation + 3 * predicted).mean()
    torch.testing.assert_close(found.loss, expected, rtol=rtol, atol=0)


@for_threats
def test_gradient_agrees_with_finite_differences_at_fixed_points(threat: Threat) -> None:
    model, x, y = problem()
    shared.assert_same_as_finite_differences_at_found_points(LLR(model, threat), x, y)


@settings(max_examples=10)
@given(st.integers(0, 1000), st.sampled_from(THREATS))
def test_the_search_makes_the_violation_larger_for_most(seed: int, threat: Threat) -> None:
    model, x = TinyNet(), images(6, seed)
    y = torch.tensor([0, 1, 2, 3, 4, 0])
    start, points = start_of(threat, x), found_by(LLR(model, threat), x, y)
    before = [parts(model, x[i], y[i], start[i])[1].item() for i in range(6)]
    after = [parts(model, x[i], y[i], points[i])[1].item() for i in range(6)]
    assert sum(b <= a for b, a in zip(before, after, strict=True)) >= 5
    assert sum(after) > 1.5 * sum(before)


def test_passes_are_the_arithmetic_of_the_method() -> None:
    assert shared.modes_of(LLR, steps=3) == [True] + [False] * 3 + [True]


@shared.for_layers_with_modes
def test_one_more_pass_where_training_answers_differently(layer: nn.Module) -> None:
    shared.assert_one_more_pass_where_modes_differ(LLR, layer)


@pytest.mark.parametrize("steps", [1, 4])
def test_only_the_gradient_at_the_image_is_differentiated_twice(steps: int) -> None:
    assert shared.passes_of(LLR, steps=steps) == (steps + 2, steps + 3)


def test_the_pass_at_the_image_counts_for_batch_norm() -> None:
    shared.assert_only_the_image_counts_for_batch_norm(LLR, steps=2)


@settings(max_examples=20)
@given(shared.searches)
def test_points_are_where_the_threat_allows(search: shared.Search) -> None:
    shared.assert_points_are_allowed(LLR, problem(), search)


@pytest.mark.parametrize(
    "options",
    [
        {"linearity_weight": 0.5, "gradient_weight": 0.0, "steps": 1},
        {"linearity_weight": 0.0, "steps": 2, "step_size": "1/255", "seed": 3},
    ],
    ids=str,
)
def test_every_option_keeps_the_contract(options: dict[str, Any]) -> None:
    check_objective(lambda model, threat: LLR(model, threat, **options))


def test_autocast_around_it_changes_nothing() -> None:
    shared.assert_autocast_changes_nothing(LLR, problem(), steps=2)


def test_a_given_step_size_is_used() -> None:
    model, x, y = problem()
    threat = Linf("0.1")
    points = found_by(LLR(model, threat, steps=1, step_size="1/10000"), x, y)
    moved = (points - start_of(threat, x)).abs().flatten()
    assert float(moved.median()) == pytest.approx(1e-4) == float(moved.amax())


def test_a_threat_that_grows_is_used() -> None:
    model, x, y = problem()
    objective = LLR(model, Linf("0.1"))
    violations = []
    for eps in ("0.000001", "0.01", "0.02", "0.1"):
        objective.threat = Linf(eps)
        points = found_by(objective, x, y)
        assert objective.threat.contains(points, x).all()
        assert float(objective.threat.norm(points - x).amax()) == pytest.approx(float(eps), rel=1e-6)
        violations.append(objective(x, y, INDEX, STEP).metrics["violation"].item())
    assert violations == sorted(violations) and violations[-1] > 30 * violations[1]
    objective.threat = Linf("0.000001")
    weak = objective(x, y, INDEX, STEP).loss
    torch.testing.assert_close(weak, Standard(model)(x, y).loss, rtol=1e-3, atol=0)


def test_without_weights_it_is_ordinary_training() -> None:
    model, x, y = problem()
    ours = LLR(model, Linf(0.1), linearity_weight=0, gradient_weight=0)(x, y).loss
    shared.assert_same_loss_and_gradients(model, ours, Standard(model)(x, y).loss)


def test_smoothed_labels_change_the_classification_and_nothing_else() -> None:
    model, x, y = problem()
    objective = LLR(model, L2("0.2"))
    shared.assert_smoothing_changes_the_classification_alone(
        objective, x, x, y, "violation", "predicted_change"
    )


def test_metrics_add_up_to_the_loss() -> None:
    model, x, y = problem()
    found = LLR(model, L2("0.2"), linearity_weight=1.5, gradient_weight=0.5)(x, y)
    metrics = found.metrics
    total = metrics["cross_entropy"] + 1.5 * metrics["violation"] + 0.5 * metrics["predicted_change"]
    torch.testing.assert_close(total, found.loss.detach())
    torch.testing.assert_close(
        metrics["confidence"], model(x).softmax(dim=1).max(dim=1).values.mean().detach()
    )


@shared.for_refusals(
    shared.negative("linearity_weight"),
    shared.negative("gradient_weight"),
    shared.no_steps(),
    shared.NO_STEP_SIZE,
)
def test_bad_values_are_refused_when_the_objective_is_made(options: dict[str, Any], message: str) -> None:
    shared.assert_refused(LLR, options, message)


def test_it_needs_a_threat() -> None:
    shared.assert_refused_without_a_threat(LLR)
