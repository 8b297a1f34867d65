from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from soar import randomness
from soar.attacks.recall import Recall, recalled
from soar.bench.step import Counted
from soar.errors import UserError
from soar.objectives import LLR, Objective, Output, Standard, check_objective
from soar.threat import L2, Linf, Threat
from tests.attacks.problems import SHAPE, Linear, Passes, TinyNet, images, said

THREATS: list[Threat] = [Linf("0.05"), L2("0.2")]
D = math.prod(SHAPE)
INDEX = torch.arange(20, 26)
STEP = 3


class Bowl(nn.Module):
    """Two classes, and for class 0 a cross-entropy of exactly c ||x||^2 / 2 + b^T x + 10."""

    def __init__(self, curvature: float) -> None:
        super().__init__()
        self.curvature = nn.Parameter(torch.tensor(curvature, dtype=torch.float64))
        self.slope = nn.Parameter(randomness.normal(randomness.key(0, 0, "bowl"), (D,), torch.float64)[0])

    def loss(self, x: Tensor) -> Tensor:
        flat = x.flatten(1)
        return self.curvature * flat.square().sum(dim=1) / 2 + flat @ self.slope + 10

    def forward(self, x: Tensor) -> Tensor:
        first = -self.loss(x).expm1().log()
        return torch.stack([first, torch.zeros_like(first)], dim=1)


def problem() -> tuple[TinyNet, Tensor, Tensor]:
    """Six images, two of them with a label that the model does not give."""
    model, x = TinyNet(), images(6)
    y = said(model, x)
    y[4:] = (y[4:] + 1) % 5
    return model, x, y


def start_of(threat: Threat, x: Tensor, seed: int = 0) -> Tensor:
    return threat.random_start(x, randomness.key(seed, INDEX, "llr start", STEP))


def found_by(objective: Objective, x: Tensor, y: Tensor) -> Tensor:
    """The points where the inner search ends."""
    recall = Recall()
    with recall.recording():
        objective(x, y, INDEX, STEP)
    with recall.replaying():
        return recalled(lambda: x)


def output_at(objective: Objective, points: Tensor, x: Tensor, y: Tensor) -> Output:
    """What the objective says when its search ends at given points."""
    recall = Recall()
    with recall.recording():
        recalled(lambda: points)
    with recall.replaying():
        output: Output = objective(x, y, INDEX, STEP)
    return output


def loss_of(model: nn.Module, point: Tensor, label: Tensor) -> Tensor:
    loss: Tensor = -model(point[None])[0].softmax(dim=0)[label].log()
    return loss


def parts(model: nn.Module, image: Tensor, label: Tensor, point: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Loss, error of its linear expansion and change that the expansion predicts, of one example."""
    leaf = image.clone().requires_grad_()
    value = loss_of(model, leaf, label)
    (slope,) = torch.autograd.grad(value, leaf, create_graph=True)
    predicted = (slope * (point - image)).sum()
    return value, (loss_of(model, point, label) - value - predicted).abs(), predicted.abs()


def climbed(
    model: nn.Module, image: Tensor, label: Tensor, start: Tensor, threat: Threat, steps: int
) -> Tensor:
    """The search of one example, written out for images that the pixel range does not limit."""
    eps, length = threat.radius, threat.radius * {10: 0.25, 5: 0.5}[steps]
    here = image.clone().requires_grad_()
    value = loss_of(model, here, label)
    (g,) = torch.autograd.grad(value, here)
    point = start
    for _ in range(steps):
        leaf = point.clone().requires_grad_()
        error = (loss_of(model, leaf, label) - value.detach() - (g * (leaf - image)).sum()).abs()
        (slope,) = torch.autograd.grad(error, leaf)
        if isinstance(threat, Linf):
            point = image + (point + length * slope.sign() - image).clamp(-eps, eps)
        else:
            delta = point + length * slope / slope.square().sum().sqrt() - image
            point = image + delta * min(1.0, eps / float(delta.square().sum().sqrt()))
    return point


def written_out(model: nn.Module, x: Tensor, points: Tensor, y: Tensor, a: float, b: float) -> Tensor:
    losses = []
    for i in range(len(y)):
        value, violation, predicted = parts(model, x[i], y[i], points[i])
        losses.append(value + a * violation + b * predicted)
    return torch.stack(losses).sum() / len(y)


def same_gradients(model: nn.Module, one: Tensor, other: Tensor) -> None:
    parameters = list(model.parameters())
    ours, theirs = torch.autograd.grad(one, parameters), torch.autograd.grad(other, parameters)
    for mine, its in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, its, rtol=1e-7, atol=1e-10)


@pytest.mark.parametrize("threat", THREATS, ids=str)
@pytest.mark.parametrize(
    "options", [{}, {"linearity_weight": 0.7, "gradient_weight": 0.2, "steps": 5, "seed": 4}], ids=str
)
def test_loss_and_gradient_are_the_formula_written_out(threat: Threat, options: dict[str, Any]) -> None:
    model, x, y = problem()
    found = LLR(model, threat, **options)(x, y, INDEX, STEP)
    start = start_of(threat, x, options.get("seed", 0))
    a, b = options.get("linearity_weight", 4.0), options.get("gradient_weight", 3.0)
    steps = options.get("steps", 10)
    points = torch.stack([climbed(model, x[i], y[i], start[i], threat, steps) for i in range(6)])
    expected = written_out(model, x, points, y, a, b)
    torch.testing.assert_close(found.loss, expected, rtol=1e-9, atol=0)
    torch.testing.assert_close(found.logits, model(x).detach())
    same_gradients(model, found.loss, expected)


@pytest.mark.parametrize("threat", THREATS, ids=str)
def test_the_search_expands_the_loss_of_eval_mode(threat: Threat) -> None:
    _, x, y = problem()
    model = nn.Sequential(nn.BatchNorm2d(1).double(), TinyNet())
    points = found_by(LLR(model, threat), x, y)
    model.eval()
    start = start_of(threat, x)
    for i in range(6):
        expected = climbed(model, x[i], y[i], start[i], threat, 10)
        torch.testing.assert_close(points[i], expected, rtol=0, atol=1e-9)


def test_the_loss_is_that_of_training_mode() -> None:
    _, x, y = problem()
    model = nn.Sequential(nn.BatchNorm2d(1).double(), TinyNet())
    objective = LLR(model, Linf("0.05"))
    points = found_by(objective, x, y)
    found = output_at(objective, points, x, y).loss
    leaf = x.clone().requires_grad_()
    values = -model(leaf).softmax(dim=1).log().gather(1, y[:, None])[:, 0]
    (g,) = torch.autograd.grad(values.sum(), leaf, create_graph=True)
    predicted = (g * (points - x)).flatten(1).sum(dim=1)
    reached = -model(points).softmax(dim=1).log().gather(1, y[:, None])[:, 0]
    expected = (values + 4 * (reached - values - predicted).abs() + 3 * predicted.abs()).mean()
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=0)
    same_gradients(model, found, expected)


@pytest.mark.parametrize("threat", THREATS, ids=str)
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
    model, x = Linear(classes=2), images(6)
    y = torch.tensor([0, 1, 0, 1, 0, 1])
    v = (model.weight[1 - y] - model.weight[y]).flatten(1)
    u = (x.flatten(1) * v).sum(dim=1)
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


@pytest.mark.parametrize("threat", THREATS, ids=str)
def test_gradient_agrees_with_finite_differences_at_fixed_points(threat: Threat) -> None:
    model, x, y = problem()
    objective = LLR(model, threat)
    points = found_by(objective, x, y)
    parameters = list(model.parameters())
    slopes = torch.autograd.grad(output_at(objective, points, x, y).loss, parameters)
    for which, (weight, slope) in enumerate(zip(parameters, slopes, strict=True)):
        key = randomness.key(which, 0, "nudge")
        nudge = randomness.normal(key, tuple(weight.shape), torch.float64)[0]
        values = []
        for move in (1e-5, -2e-5):
            weight.data.add_(move * nudge)
            values.append(output_at(objective, points, x, y).loss.item())
        weight.data.add_(1e-5 * nudge)
        assert float((slope * nudge).sum()) == pytest.approx((values[0] - values[1]) / 2e-5, rel=1e-5)


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
    model, x = Passes(), images(3)
    LLR(model, Linf(0.1), steps=3)(x, said(model.model, x))
    assert model.modes == [True] + [False] * 3 + [True]


@pytest.mark.parametrize(
    "layer", [nn.BatchNorm2d(1), nn.Dropout(0.5)], ids=lambda layer: type(layer).__name__
)
def test_one_more_pass_where_training_answers_differently(layer: nn.Module) -> None:
    passes, x = Passes(), images(3)
    objective = LLR(nn.Sequential(layer.double(), passes), Linf(0.1), steps=3)
    with torch.random.fork_rng():
        objective(x, said(passes.model, x))
        assert passes.modes == [True] + [False] * 4 + [True]
        passes.modes.clear()
        objective.eval()
        objective(x, said(passes.model, x))
    assert passes.modes == [False] * 5


@pytest.mark.parametrize("steps", [1, 4])
def test_only_the_gradient_at_the_image_is_differentiated_twice(steps: int) -> None:
    model, x = Counted(TinyNet()), images(3)
    LLR(model, Linf(0.1), steps=steps)(x, said(model.model, x)).loss.backward()
    assert (model.forwards, model.backwards) == (steps + 2, steps + 3)


def test_the_pass_at_the_image_counts_for_batch_norm() -> None:
    _, x, y = problem()
    norm = nn.BatchNorm2d(1).double()
    LLR(nn.Sequential(norm, TinyNet()), L2("0.3"), steps=2)(x, y).loss.backward()
    assert int(norm.get_buffer("num_batches_tracked")) == 1
    torch.testing.assert_close(norm.get_buffer("running_mean"), 0.1 * x.mean(dim=(0, 2, 3)))
    assert norm.training and norm.track_running_stats


@settings(max_examples=20)
@given(st.integers(0, 1000), st.sampled_from(["linf", "l2"]), st.floats(0.0001, 0.9), st.integers(1, 3))
def test_points_are_where_the_threat_allows(seed: int, norm: str, eps: float, steps: int) -> None:
    threat: Threat = Linf(eps) if norm == "linf" else L2(eps)
    model, _, y = problem()
    keys = randomness.key(seed, INDEX, "anywhere")
    x = (1.5 * randomness.uniform(keys, SHAPE, torch.float64) - 0.25).clamp(0, 1)
    points = found_by(LLR(model, threat, steps=steps, seed=seed), x, y)
    assert threat.contains(points, x).all() and not points.requires_grad


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
    model, x, y = problem()
    objective = LLR(model.float(), Linf(0.1), steps=2)
    plain = objective(x.float(), y, INDEX, STEP).loss
    with torch.autocast("cpu", torch.bfloat16):
        inside = objective(x.float(), y, INDEX, STEP).loss
    assert inside.dtype == torch.float32 and not LLR.allows_bfloat16
    torch.testing.assert_close(inside, plain)


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
    theirs = Standard(model)(x, y).loss
    torch.testing.assert_close(ours, theirs)
    same_gradients(model, ours, theirs)


def test_smoothed_labels_change_the_classification_and_nothing_else() -> None:
    model, x, y = problem()
    objective = LLR(model, L2("0.2"))
    plain = objective(x, y, INDEX, STEP)
    objective.label_smoothing = 0.1
    smoothed = objective(x, y, INDEX, STEP)
    log_p = model(x).softmax(dim=1).log()
    true = torch.stack([-log_p[i, y[i]] for i in range(6)])
    expected = (0.9 * true - 0.1 * log_p.sum(dim=1) / 5).mean()
    for name in ("violation", "predicted_change"):
        assert torch.equal(smoothed.metrics[name], plain.metrics[name])
    torch.testing.assert_close(smoothed.loss - plain.loss, expected - true.mean())
    same_gradients(model, smoothed.loss - plain.loss, expected - true.mean())


def test_metrics_add_up_to_the_loss() -> None:
    model, x, y = problem()
    found = LLR(model, L2("0.2"), linearity_weight=1.5, gradient_weight=0.5)(x, y)
    metrics = found.metrics
    total = metrics["cross_entropy"] + 1.5 * metrics["violation"] + 0.5 * metrics["predicted_change"]
    torch.testing.assert_close(total, found.loss.detach())
    torch.testing.assert_close(
        metrics["confidence"], model(x).softmax(dim=1).max(dim=1).values.mean().detach()
    )


@pytest.mark.parametrize(
    "options, message",
    [
        (
            {"linearity_weight": -1},
            "objective.linearity_weight: got -1, expected at least 0 (flag --objective.linearity_weight)",
        ),
        (
            {"gradient_weight": -1},
            "objective.gradient_weight: got -1, expected at least 0 (flag --objective.gradient_weight)",
        ),
        ({"steps": 0}, "objective.steps: got 0, expected above 0 (flag --objective.steps)"),
        (
            {"step_size": "0"},
            "objective.step_size: got 0, expected a number above 0 (flag --objective.step_size)",
        ),
    ],
    ids=str,
)
def test_bad_values_are_refused_when_the_objective_is_made(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError) as caught:
        LLR(TinyNet(), Linf(0.1), **options)
    assert str(caught.value) == message


def test_it_needs_a_threat() -> None:
    with pytest.raises(UserError, match=r"^LLR needs a threat, such as Linf\('8/255'\) \(field threat\)$"):
        LLR(TinyNet(), None)  # type: ignore[arg-type]
