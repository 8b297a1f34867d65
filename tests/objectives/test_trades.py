from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from torch import Tensor, nn

from soar.objectives import TRADES, Standard, check_objective
from soar.threat import L2, Linf, Threat
from tests.objectives import shared
from tests.objectives.shared import INDEX, STEP, for_threats, found_by, output_at, problem


def searched(model: nn.Module, x: Tensor, threat: Threat, steps: int = 10, seed: int = 0) -> Tensor:
    """Where the divergence from the answer at the image ends its climb."""
    natural = [model(image[None])[0].detach() for image in x]
    return shared.climbed(
        lambda i, point: shared.divergence(natural[i], model(point[None])[0]),
        x,
        x + shared.noise(seed),
        threat,
        steps,
    )


def written_out(model: nn.Module, x: Tensor, points: Tensor, y: Tensor, beta: float) -> Tensor:
    natural, attacked = model(x), model(points)
    losses = [
        -natural[i].softmax(dim=0)[y[i]].log() + beta * shared.divergence(natural[i], attacked[i])
        for i in range(len(y))
    ]
    return torch.stack(losses).sum() / len(y)


@for_threats
@pytest.mark.parametrize("options", [{}, {"beta": 1.5, "steps": 5, "seed": 4}], ids=str)
def test_loss_and_gradient_are_the_formula_written_out(threat: Threat, options: dict[str, Any]) -> None:
    model, x, y = problem()
    found = TRADES(model, threat, **options)(x, y, INDEX, STEP)
    points = searched(model, x, threat, options.get("steps", 10), options.get("seed", 0))
    expected = written_out(model, x, points, y, options.get("beta", 6.0))
    shared.assert_same_loss_and_gradients(model, found.loss, expected)
    torch.testing.assert_close(found.logits, model(points).detach(), rtol=1e-10, atol=1e-10)


@for_threats
def test_the_search_compares_answers_of_eval_mode(threat: Threat) -> None:
    _, x, y = problem()
    model = shared.with_batch_norm()
    objective = TRADES(model, threat)
    points = found_by(objective, x, y)
    model.eval()
    torch.testing.assert_close(points, searched(model, x, threat), rtol=0, atol=1e-10)
    model.train()
    found = output_at(objective, points, x, y)
    shared.assert_same_loss_and_gradients(model, found.loss, written_out(model, x, points, y, 6.0))


@pytest.mark.parametrize("threat, dual, rtol", [(Linf("0.05"), 1, 1e-12), (L2("0.2"), 2, 1e-4)], ids=str)
def test_loss_on_a_linear_model_is_the_closed_form(threat: Threat, dual: int, rtol: float) -> None:
    # Two classes: the divergence grows with the distance along w, to the side on which the noise lies.
    # In l2 a little of the noise across w is left at the end.
    model, x, y = shared.linear_problem()
    w = (model.weight[1] - model.weight[0]).flatten()
    side = (shared.noise().flatten(1) @ w).sign().detach()
    u = x.flatten(1) @ w
    p = u.sigmoid()
    q = (u + side * threat.radius * torch.linalg.vector_norm(w, ord=dual)).sigmoid()
    divergences = p * (p / q).log() + (1 - p) * ((1 - p) / (1 - q)).log()
    expected = (-torch.where(y == 1, p, 1 - p).log() + 6 * divergences).mean()
    found = TRADES(model, threat)(x, y, INDEX, STEP)
    torch.testing.assert_close(found.loss, expected, rtol=rtol, atol=0)


def test_without_the_divergence_it_is_ordinary_training() -> None:
    model, x, y = problem()
    for smoothing in (0.0, 0.1):
        objective, plain = TRADES(model, Linf(0.1), beta=0), Standard(model)
        objective.label_smoothing = plain.label_smoothing = smoothing
        shared.assert_same_loss_and_gradients(model, objective(x, y).loss, plain(x, y).loss)


@for_threats
def test_gradient_agrees_with_finite_differences_at_fixed_points(threat: Threat) -> None:
    model, x, y = problem()
    shared.assert_same_as_finite_differences_at_found_points(TRADES(model, threat), x, y)


def test_passes_are_the_arithmetic_of_the_method() -> None:
    assert shared.modes_of(TRADES, steps=3) == [True] + [False] * 3 + [True]


@shared.for_layers_with_modes
def test_one_more_pass_where_training_answers_differently(layer: nn.Module) -> None:
    shared.assert_one_more_pass_where_modes_differ(TRADES, layer)


@pytest.mark.parametrize("steps", [1, 4])
def test_backward_passes_are_as_many_as_forward_passes(steps: int) -> None:
    assert shared.passes_of(TRADES, steps=steps) == (steps + 2, steps + 2)


def test_the_pass_at_the_image_counts_for_batch_norm() -> None:
    shared.assert_only_the_image_counts_for_batch_norm(TRADES, steps=2)


@settings(max_examples=20)
@given(shared.searches)
def test_points_are_where_the_threat_allows(search: shared.Search) -> None:
    shared.assert_points_are_allowed(TRADES, problem(), search)


@pytest.mark.parametrize(
    "options", [{"beta": 0.5, "steps": 1}, {"steps": 2, "step_size": "1/255", "seed": 3}], ids=str
)
def test_every_option_keeps_the_contract(options: dict[str, Any]) -> None:
    check_objective(lambda model, threat: TRADES(model, threat, **options))


def test_a_given_step_size_is_used() -> None:
    shared.assert_step_size_is_used_near_the_image(TRADES, problem())


def test_a_replaced_threat_is_used() -> None:
    model, x, y = problem()
    shared.assert_replaced_threat_is_used(TRADES, (model, x, y), Standard(model)(x, y).loss, rtol=1e-6)


def test_smoothed_labels_change_the_classification_and_nothing_else() -> None:
    model, x, y = problem()
    objective = TRADES(model, L2("0.2"), beta=2.0)
    seen = shared.assert_smoothing_changes_the_classification_alone(objective, x, x, y, "divergence")
    divergences = seen.plain.metrics["divergence"]
    torch.testing.assert_close(seen.smoothed.loss, seen.soft + 2 * divergences)
    torch.testing.assert_close(seen.plain.loss, seen.hard + 2 * divergences)
    assert abs(seen.smoothed.loss - seen.plain.loss) > 0.01


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_metrics_add_up_to_the_loss(smoothing: float) -> None:
    model, x, y = problem()
    objective = TRADES(model, Linf("0.05"), beta=2.5)
    objective.label_smoothing = smoothing
    found = objective(x, y)
    metrics = found.metrics
    torch.testing.assert_close(metrics["cross_entropy"] + 2.5 * metrics["divergence"], found.loss.detach())
    assert metrics["natural_accuracy"].item() == pytest.approx(4 / 6)


@shared.for_refusals(shared.negative("beta"), shared.no_steps(), shared.NO_STEP_SIZE)
def test_bad_values_are_refused_when_the_objective_is_made(options: dict[str, Any], message: str) -> None:
    shared.assert_refused(TRADES, options, message)


def test_it_needs_a_threat() -> None:
    shared.assert_refused_without_a_threat(TRADES)
