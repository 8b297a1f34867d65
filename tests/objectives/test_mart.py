from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from torch import Tensor, nn

from soar.objectives import MART, Standard, check_objective
from soar.threat import L2, Linf, Threat
from tests.attacks.problems import Linear, images, said
from tests.objectives import shared
from tests.objectives.shared import INDEX, STEP, THREATS, for_threats, found_by, output_at, problem

SEED = 8  # of the model


def searched(
    model: nn.Module, x: Tensor, y: Tensor, threat: Threat, steps: int = 10, seed: int = 0
) -> Tensor:
    """Where the cross-entropy ends its climb."""
    return shared.climbed(
        lambda i, point: shared.loss_of(model, point, y[i]), x, x + shared.noise(seed), threat, steps
    )


def boosted(attacked: Tensor, label: int) -> Tensor:
    """-log q_y - log(1 - q_k) of one example; 1 - q_k is the sum of the others."""
    q = attacked.softmax(dim=0)
    rival = max((k for k in range(len(q)) if k != label), key=q.tolist().__getitem__)
    others = torch.stack([q[k] for k in range(len(q)) if k != rival]).sum()
    return -q[label].log() - others.log()


def weighted(natural: Tensor, attacked: Tensor, label: int) -> Tensor:
    """(1 - p_y) KL(p || q) of one example, class by class."""
    p = natural.softmax(dim=0)
    doubt = torch.stack([p[k] for k in range(len(p)) if k != label]).sum()
    return doubt * shared.divergence(natural, attacked)


def written_out(model: nn.Module, x: Tensor, points: Tensor, y: Tensor, beta: float) -> Tensor:
    natural, attacked = model(x), model(points)
    losses = [
        boosted(attacked[i], int(y[i])) + beta * weighted(natural[i], attacked[i], int(y[i]))
        for i in range(len(y))
    ]
    return torch.stack(losses).sum() / len(y)


@for_threats
@pytest.mark.parametrize("options", [{}, {"beta": 1.5, "steps": 5, "seed": 4}], ids=str)
def test_loss_and_gradient_are_the_formula_written_out(threat: Threat, options: dict[str, Any]) -> None:
    model, x, y = problem(SEED)
    found = MART(model, threat, **options)(x, y, INDEX, STEP)
    points = searched(model, x, y, threat, options.get("steps", 10), options.get("seed", 0))
    expected = written_out(model, x, points, y, options.get("beta", 5.0))
    shared.assert_same_loss_and_gradients(model, found.loss, expected)
    torch.testing.assert_close(found.logits, model(points).detach(), rtol=1e-10, atol=1e-10)


def test_these_problems_have_right_and_wrong_answers_and_rivals_that_change() -> None:
    model, x, y = problem(SEED)
    for threat in THREATS:
        attacked = model(found_by(MART(model, threat), x, y))
        assert 0 < int((attacked.argmax(dim=1) != y).sum()) < 6
        hidden = 1e9 * nn.functional.one_hot(y, 5)
        assert ((attacked - hidden).argmax(dim=1) != (model(x) - hidden).argmax(dim=1)).any()


@for_threats
def test_the_search_is_in_eval_mode_and_the_loss_in_training(threat: Threat) -> None:
    _, x, y = problem(SEED)
    model = shared.with_batch_norm()
    objective = MART(model, threat)
    # The search comes first, so it sees the statistics from before the update.
    before = copy.deepcopy(model).eval()
    points = found_by(objective, x, y)
    torch.testing.assert_close(points, searched(before, x, y, threat), rtol=0, atol=1e-10)
    found = output_at(objective, points, x, y)
    shared.assert_same_loss_and_gradients(model, found.loss, written_out(model, x, points, y, 5.0))


@pytest.mark.parametrize("threat, dual", [(Linf("0.05"), 1), (L2("0.1"), 2)], ids=str)
def test_two_classes_without_the_divergence_are_twice_the_attacked_cross_entropy(
    threat: Threat, dual: int
) -> None:
    # 1 - q_k is q_y then, and the worst loss of a linear model is softplus(m + eps ||w||).
    model, x, y = shared.linear_problem()
    w = (model.weight[1] - model.weight[0]).flatten()
    margin = (x.flatten(1) @ w) * torch.where(y == 1, -1.0, 1.0)
    worst = margin + threat.radius * torch.linalg.vector_norm(w, ord=dual)
    expected = 2 * torch.nn.functional.softplus(worst).mean()
    found = MART(model, threat, beta=0)(x, y, INDEX, STEP)
    torch.testing.assert_close(found.loss, expected, rtol=1e-4, atol=0)
    shared.assert_same_gradients(
        model, found.loss, 2 * Standard(model)(found_by(MART(model, threat), x, y), y).loss
    )


@for_threats
def test_gradient_agrees_with_finite_differences_at_fixed_points(threat: Threat) -> None:
    model, x, y = problem(SEED)
    shared.assert_same_as_finite_differences_at_found_points(MART(model, threat), x, y)


def in_logarithms(model: nn.Module, x: Tensor, points: Tensor, y: Tensor) -> Tensor:
    """The loss with beta 5, example by example, where probabilities would underflow."""
    losses = []
    for natural, attacked, label in zip(model(x), model(points), y.tolist(), strict=True):
        log_p, log_q = natural.log_softmax(dim=0), attacked.log_softmax(dim=0)
        ranked = sorted(range(len(log_q)), key=log_q.tolist().__getitem__)
        rival = ranked[-2] if ranked[-1] == label else ranked[-1]
        others = torch.stack([v for k, v in enumerate(log_q) if k != rival]).logsumexp(dim=0)
        doubt = torch.stack([v for k, v in enumerate(log_p) if k != label]).logsumexp(dim=0).exp()
        losses.append(5 * doubt * (log_p.exp() * (log_p - log_q)).sum() - log_q[label] - others)
    return torch.stack(losses).mean()


@pytest.mark.parametrize("classes", [2, 3, 10])
@for_threats
def test_huge_logits_in_float32_give_the_loss_and_slope_of_float64(threat: Threat, classes: int) -> None:
    exact, x = Linear(classes=classes), images(6)
    exact.weight.data.mul_(3e4)
    single = copy.deepcopy(exact).float()
    exact.load_state_dict(single.state_dict())
    x = x.float().double()
    right = said(exact, x)
    for y in (right, (right + 1) % classes):
        objective = MART(single, threat)
        points = found_by(objective, x.float(), y)
        logits = single(points)
        assert logits.abs().amax() > 1e4 and (logits.softmax(dim=1).amax(dim=1) == 1).any()
        found = output_at(objective, points, x.float(), y).loss
        expected = in_logarithms(exact, x, points.double(), y)
        torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-6)
        (ours,) = torch.autograd.grad(found, single.weight)
        (theirs,) = torch.autograd.grad(expected, exact.weight)
        torch.testing.assert_close(ours.double(), theirs, rtol=1e-3, atol=1e-4)


def test_a_confident_mistake_keeps_both_its_slopes() -> None:
    # -log q_y pulls the label up and -log(1 - q_k) pushes the rival down, each with its full weight of 1.
    model, x = Linear(classes=3), images(1)
    model.weight.data.zero_()
    model.bias.data.copy_(torch.tensor([0.0, 1e4, -1e4]))
    model.float()
    found = MART(model, Linf("0.1"), beta=0)(x.float(), torch.tensor([0]))
    assert found.loss.item() == pytest.approx(2e4)
    (slope,) = torch.autograd.grad(found.loss, model.bias)
    assert slope.tolist() == [-2, 2, 0]


def test_passes_are_the_arithmetic_of_the_method() -> None:
    assert shared.modes_of(MART, steps=3) == [False] * 3 + [True, True]


def test_batch_norm_costs_no_more_passes() -> None:
    assert shared.modes_of(MART, (nn.BatchNorm2d(1).double(),), steps=3) == [False] * 3 + [True, True]


@pytest.mark.parametrize("steps", [1, 4])
def test_backward_passes_are_as_many_as_forward_passes(steps: int) -> None:
    assert shared.passes_of(MART, steps=steps) == (steps + 2, steps + 2)


def test_the_pass_at_the_image_counts_for_batch_norm() -> None:
    shared.assert_only_the_image_counts_for_batch_norm(MART, steps=2)


@settings(max_examples=20)
@given(shared.searches)
def test_points_are_where_the_threat_allows(search: shared.Search) -> None:
    shared.assert_points_are_allowed(MART, problem(SEED), search)


@pytest.mark.parametrize(
    "options", [{"beta": 0.5, "steps": 1}, {"steps": 2, "step_size": "1/255", "seed": 3}], ids=str
)
def test_every_option_keeps_the_contract(options: dict[str, Any]) -> None:
    check_objective(lambda model, threat: MART(model, threat, **options))


def test_a_given_step_size_is_used() -> None:
    shared.assert_step_size_is_used_near_the_image(MART, problem(SEED))


def test_a_replaced_threat_is_used() -> None:
    model, x, y = problem(SEED)
    shared.assert_replaced_threat_is_used(MART, (model, x, y), written_out(model, x, x, y, 5.0), rtol=1e-4)


def test_smoothed_labels_change_the_classification_and_nothing_else() -> None:
    model, x, y = problem(SEED)
    objective = MART(model, L2("0.2"), beta=2.0)
    points = found_by(objective, x, y)
    shared.assert_smoothing_changes_the_classification_alone(objective, points, x, y, "weighted_divergence")


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_metrics_add_up_to_the_loss(smoothing: float) -> None:
    model, x, y = problem(SEED)
    objective = MART(model, Linf("0.05"), beta=2.5)
    objective.label_smoothing = smoothing
    found = objective(x, y)
    metrics = found.metrics
    total = metrics["boosted_cross_entropy"] + 2.5 * metrics["weighted_divergence"]
    torch.testing.assert_close(total, found.loss.detach())
    p = model(x).softmax(dim=1)
    doubts = torch.stack([1 - p[i, y[i]] for i in range(6)])
    torch.testing.assert_close(metrics["doubt"], doubts.mean().detach())
    assert metrics["natural_accuracy"].item() == pytest.approx(4 / 6)


@shared.for_refusals(shared.negative("beta"), shared.no_steps(), shared.NO_STEP_SIZE)
def test_bad_values_are_refused_when_the_objective_is_made(options: dict[str, Any], message: str) -> None:
    shared.assert_refused(MART, options, message)


def test_it_needs_a_threat() -> None:
    shared.assert_refused_without_a_threat(MART)
