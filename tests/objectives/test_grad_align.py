from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from soar import randomness
from soar.objectives import GradAlign, check_objective
from soar.objectives.grad_align import misalignment, usual_weight
from soar.objectives.inner_passes import statistics
from soar.threat import L2, Linf, Threat
from tests.objectives import shared
from tests.objectives.shared import INDEX, STEP, for_threats, problem


def near(x: Tensor, threat: Threat, seed: int = 0) -> Tensor:
    return threat.random_start(x, randomness.key(seed, INDEX, "grad-align noise", STEP))


def slope_of(model: nn.Module, point: Tensor, label: Tensor) -> Tensor:
    """The gradient of one example, which can be differentiated by the weights."""
    leaf = point.clone().requires_grad_()
    return torch.autograd.grad(shared.loss_of(model, leaf, label), leaf, create_graph=True)[0]


def written_out(model: nn.Module, x: Tensor, y: Tensor, threat: Threat, weight: float, seed: int) -> Tensor:
    losses = []
    for image, place, label in zip(x, near(x, threat, seed), y, strict=True):
        first, second = slope_of(model, image, label).detach(), slope_of(model, place, label)
        step = first.sign() if isinstance(threat, Linf) else first / first.norm()
        cos = (first * second).sum() / first.norm() / second.norm()
        losses.append(shared.loss_of(model, image + threat.radius * step, label) + weight * (1 - cos))
    return torch.stack(losses).mean()


@for_threats
@pytest.mark.parametrize("options", [{}, {"weight": 50.0, "seed": 3}], ids=str)
def test_loss_and_gradient_are_the_formula_written_out(threat: Threat, options: dict[str, Any]) -> None:
    model, x, y = problem()
    found = GradAlign(model, threat, **options)(x, y, INDEX, STEP)
    default = 0.2 * 10 ** (0.05 * 255 / 8 - 1) if isinstance(threat, Linf) else 0.2
    expected = written_out(model, x, y, threat, options.get("weight", default), options.get("seed", 0))
    shared.assert_same_loss_and_gradients(model, found.loss, expected, rtol=1e-9)


def test_both_gradients_are_those_of_training_mode() -> None:
    _, x, y = problem()
    model, threat = shared.with_batch_norm(), Linf("0.05")
    found = GradAlign(model, threat, weight=3.0)(x, y, INDEX, STEP)

    def gradients(points: Tensor) -> Tensor:
        leaf = points.clone().requires_grad_()
        with statistics(model, "batch"):
            loss = torch.nn.functional.cross_entropy(model(leaf), y, reduction="sum")
        slope: Tensor = torch.autograd.grad(loss, leaf, create_graph=True)[0]
        return slope.flatten(1)

    cos = torch.nn.functional.cosine_similarity(gradients(x).detach(), gradients(near(x, threat)), dim=1)
    # The running statistics have changed since the step, by the one pass that counts.
    fresh = shared.with_batch_norm().eval()
    leaf = x.clone().requires_grad_()
    (slope,) = torch.autograd.grad(torch.nn.functional.cross_entropy(fresh(leaf), y), leaf)
    reached = torch.nn.functional.cross_entropy(model(x + 0.05 * slope.sign()), y)
    shared.assert_same_loss_and_gradients(model, found.loss, reached + 3 * (1 - cos).mean(), rtol=1e-9)


@pytest.mark.parametrize(
    "threat, weight",
    [(Linf("8/255"), 0.2), (Linf("12/255"), 0.4**0.5), (Linf("16/255"), 2.0), (L2("0.5"), 0.2), (L2(2), 0.2)],
    ids=str,
)
def test_the_usual_weight_is_log_linear_in_eps(threat: Threat, weight: float) -> None:
    assert usual_weight(threat) == pytest.approx(weight)


def test_a_linear_model_has_no_penalty() -> None:
    model, x, y = shared.linear_problem()
    found = GradAlign(model, Linf("0.2"), weight=1e6)(x, y)
    assert found.metrics["penalty"].item() == pytest.approx(0, abs=1e-8)
    found.loss.backward()
    assert found.metrics["alignment"].item() == pytest.approx(1)


@pytest.mark.parametrize("zero", [0, 1])
def test_examples_with_a_zero_gradient_have_no_penalty_and_a_finite_derivative(zero: int) -> None:
    pair = [torch.tensor([[1.0, 0.0], [1.0, 1.0]]), torch.tensor([[1.0, 1.0], [0.0, 1.0]])]
    pair[zero] = pair[zero].clone()
    pair[zero][1] = 0
    gradient = pair[1].requires_grad_()
    found = misalignment(pair[0], gradient)
    assert found.tolist() == pytest.approx([1 - 0.5**0.5, 0])
    found.sum().backward()
    assert gradient.grad is not None
    assert gradient.grad[1].tolist() == [0, 0] and gradient.grad[0].any()


def test_metrics_add_up_to_the_loss() -> None:
    model, x, y = problem()
    found = GradAlign(model, Linf("0.05"))(x, y)
    torch.testing.assert_close(found.metrics["cross_entropy"] + found.metrics["penalty"], found.loss.detach())


def test_passes_are_the_arithmetic_of_the_method() -> None:
    assert shared.modes_of(GradAlign) == [False, True, True]
    assert shared.passes_of(GradAlign) == (3, 4)


@shared.for_layers_with_modes
def test_one_more_pass_where_training_answers_differently(layer: nn.Module) -> None:
    with torch.random.fork_rng():
        assert shared.modes_of(GradAlign, (layer.double(),)) == [False, True, True, True]


def test_only_the_attacked_points_count_for_batch_norm() -> None:
    model, x, y = problem()
    norm = nn.BatchNorm2d(1).double()
    objective = GradAlign(nn.Sequential(norm, model), Linf("0.05"))
    asked: list[Tensor] = []
    norm.register_forward_pre_hook(lambda _, given: asked.append(given[0].detach()))
    objective(x, y, INDEX, STEP).loss.backward()
    assert int(norm.get_buffer("num_batches_tracked")) == 1
    torch.testing.assert_close(norm.get_buffer("running_mean"), 0.1 * asked[-1].mean(dim=(0, 2, 3)))


@pytest.mark.parametrize("options", [{"weight": 0.0}, {"weight": 5.0, "seed": 2}], ids=str)
def test_every_option_keeps_the_contract(options: dict[str, Any]) -> None:
    check_objective(lambda model, threat: GradAlign(model, threat, **options))


@shared.for_refusals(shared.negative("weight"))
def test_bad_values_are_refused_when_the_objective_is_made(options: dict[str, Any], message: str) -> None:
    shared.assert_refused(GradAlign, options, message)


def test_it_needs_a_threat() -> None:
    shared.assert_refused_without_a_threat(GradAlign)
