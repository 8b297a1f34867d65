from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from torch import Tensor, nn

from soar import randomness
from soar.objectives import NuAT, Standard, check_objective
from soar.objectives.nuat import nuclear_norm
from soar.threat import L2, Linf, Threat
from tests.attacks.problems import SHAPE
from tests.objectives import shared
from tests.objectives.shared import INDEX, STEP, for_threats, found_by, output_at, problem


def start_of(x: Tensor, threat: Threat, seed: int = 0) -> Tensor:
    keys = randomness.key(seed, INDEX, "nuat start", STEP)
    if isinstance(threat, Linf):
        return x + threat.radius / 2 * randomness.sign(keys, SHAPE, torch.float64)
    return threat.scaled("1/2").random_start(x, keys)


def norm_of(change: Tensor) -> Tensor:
    """The trace of (D^T D)^(1/2)."""
    norm: Tensor = torch.linalg.eigvalsh(change.T @ change).clamp(min=0).sqrt().sum()
    return norm


def searched(model: nn.Module, x: Tensor, y: Tensor, threat: Threat, weight: float, seed: int) -> Tensor:
    leaf = start_of(x, threat, seed).requires_grad_()
    logits = model(leaf)
    height = torch.nn.functional.cross_entropy(logits, y) + weight / 6 * norm_of(logits - model(x).detach())
    (slope,) = torch.autograd.grad(height, leaf)
    eps = threat.radius
    if isinstance(threat, Linf):
        return x + (leaf.detach() + eps * slope.sign() - x).clamp(-eps, eps)
    delta = (leaf.detach() - x).flatten(1) + eps * torch.nn.functional.normalize(slope.flatten(1))
    length = torch.linalg.vector_norm(delta, dim=1, keepdim=True)
    moved: Tensor = x + (delta * (eps / length).clamp(max=1)).reshape(x.shape)
    return moved


@for_threats
@pytest.mark.parametrize("options", [{}, {"weight": 0.7, "seed": 4}], ids=str)
def test_loss_and_gradient_are_the_formula_written_out(threat: Threat, options: dict[str, Any]) -> None:
    model, x, y = problem()
    weight = options.get("weight", 4.5)
    found = NuAT(model, threat, **options)(x, y, INDEX, STEP)
    points = searched(model, x, y, threat, weight, options.get("seed", 0))
    log_p = model(x).softmax(dim=1).log()
    clean = -torch.stack([log_p[i, y[i]] for i in range(6)]).mean()
    expected = clean + weight / 6 * norm_of(model(x) - model(points))
    shared.assert_same_loss_and_gradients(model, found.loss, expected, rtol=1e-8)
    torch.testing.assert_close(found.logits, model(points).detach())


def test_the_search_compares_with_the_logits_of_eval_mode() -> None:
    _, x, y = problem()
    model = shared.with_batch_norm()
    points = found_by(NuAT(model, Linf("0.05")), x, y)
    torch.testing.assert_close(points, searched(shared.with_batch_norm().eval(), x, y, Linf("0.05"), 4.5, 0))


def test_the_nuclear_norm_and_its_slope_are_known_for_a_product_of_vectors() -> None:
    # u v^T has the one singular value |u| |v|, and others of 0, at which the slope must stay finite.
    u, v = torch.tensor([3.0, 4.0, 0.0]), torch.tensor([0.0, 2.0])
    matrix = torch.outer(u, v).requires_grad_()
    found = nuclear_norm(matrix)
    found.backward()
    assert found.item() == pytest.approx(10) and matrix.grad is not None
    assert float((matrix.grad * torch.outer(u, v)).sum()) == pytest.approx(10)


def test_examples_are_coupled_and_it_says_so() -> None:
    model, x, y = problem()
    objective = NuAT(model, Linf("0.05"))
    whole = objective(x, y, INDEX, STEP).loss
    halves = [objective(x[rows], y[rows], INDEX[rows], STEP).loss for rows in (slice(3), slice(3, 6))]
    assert NuAT.couples_examples and abs(whole - sum(halves) / 2) > 1e-3
    alone = [objective(x[i : i + 1], y[i : i + 1], INDEX[i : i + 1], STEP).loss for i in range(6)]
    assert whole < sum(alone) / 6, "the norm of a matrix is at most the sum of those of its rows"


@for_threats
def test_gradient_agrees_with_finite_differences_at_fixed_points(threat: Threat) -> None:
    model, x, y = problem()
    shared.assert_same_as_finite_differences_at_found_points(NuAT(model, threat), x, y)


@settings(max_examples=20)
@given(shared.searches)
def test_points_are_where_the_threat_allows(search: shared.Search) -> None:
    shared.assert_points_are_allowed(
        lambda *given, steps, **options: NuAT(*given, **options), problem(), search
    )


def test_passes_are_the_arithmetic_of_the_method() -> None:
    assert shared.modes_of(NuAT) == [True, False, True]
    assert shared.passes_of(NuAT) == (3, 3)


@shared.for_layers_with_modes
def test_one_more_pass_where_training_answers_differently(layer: nn.Module) -> None:
    with torch.random.fork_rng():
        assert shared.modes_of(NuAT, (layer.double(),)) == [True, False, False, True]


def test_the_pass_at_the_image_counts_for_batch_norm() -> None:
    shared.assert_only_the_image_counts_for_batch_norm(NuAT)


def test_smoothed_labels_change_the_classification_and_nothing_else() -> None:
    model, x, y = problem()
    shared.assert_smoothing_changes_the_classification_alone(
        NuAT(model, L2("0.2")), x, x, y, "nuclear_norm", "natural_accuracy"
    )


def test_without_weight_it_is_ordinary_training() -> None:
    model, x, y = problem()
    found = NuAT(model, Linf("0.1"), weight=0)(x, y).loss
    shared.assert_same_loss_and_gradients(model, found, Standard(model)(x, y).loss)


def test_metrics_add_up_to_the_loss() -> None:
    model, x, y = problem()
    objective = NuAT(model, Linf("0.05"), weight=2.0)
    found = output_at(objective, found_by(objective, x, y), x, y)
    total = found.metrics["cross_entropy"] + 2 * found.metrics["nuclear_norm"]
    torch.testing.assert_close(total, found.loss.detach())
    assert found.metrics["natural_accuracy"].item() == pytest.approx(4 / 6)


@pytest.mark.parametrize("options", [{"weight": 0.5, "seed": 3}], ids=str)
def test_every_option_keeps_the_contract(options: dict[str, Any]) -> None:
    check_objective(lambda model, threat: NuAT(model, threat, **options))


@shared.for_refusals(shared.negative("weight"))
def test_bad_values_are_refused_when_the_objective_is_made(options: dict[str, Any], message: str) -> None:
    shared.assert_refused(NuAT, options, message)


def test_it_needs_a_threat() -> None:
    shared.assert_refused_without_a_threat(NuAT)
