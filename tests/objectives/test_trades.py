from __future__ import annotations

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
from soar.objectives import TRADES, Objective, Output, Standard, check_objective
from soar.threat import L2, Linf, Threat
from tests.attacks.problems import SHAPE, Linear, Passes, TinyNet, images, said

THREATS: list[Threat] = [Linf("0.05"), L2("0.2")]
INDEX = torch.arange(20, 26)
STEP = 3


def problem() -> tuple[TinyNet, Tensor, Tensor]:
    """Six images, two of them with a label that the model does not give."""
    model, x = TinyNet(), images(6)
    y = said(model, x)
    y[4:] = (y[4:] + 1) % 5
    return model, x, y


def noise(seed: int) -> Tensor:
    return 0.001 * randomness.normal(randomness.key(seed, INDEX, "near start", STEP), SHAPE, torch.float64)


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


def divergence(natural: Tensor, attacked: Tensor) -> Tensor:
    """KL of one example, class by class."""
    p, q = natural.softmax(dim=0), attacked.softmax(dim=0)
    return torch.stack([p[k] * (p[k].log() - q[k].log()) for k in range(len(p))]).sum()


def climbed(model: nn.Module, image: Tensor, start: Tensor, threat: Threat, steps: int) -> Tensor:
    """The search of one example, written out for images that the pixel range does not limit."""
    eps, length = threat.radius, threat.radius * {10: 0.25, 5: 0.5}[steps]
    natural, point = model(image[None])[0].detach(), start
    for _ in range(steps):
        leaf = point.clone().requires_grad_()
        (slope,) = torch.autograd.grad(divergence(natural, model(leaf[None])[0]), leaf)
        if isinstance(threat, Linf):
            point = image + (point + length * slope.sign() - image).clamp(-eps, eps)
        else:
            delta = point + length * slope / slope.square().sum().sqrt() - image
            point = image + delta * min(1.0, eps / float(delta.square().sum().sqrt()))
    return point


def written_out(model: nn.Module, x: Tensor, points: Tensor, y: Tensor, beta: float) -> Tensor:
    natural, attacked = model(x), model(points)
    losses = [
        -natural[i].softmax(dim=0)[y[i]].log() + beta * divergence(natural[i], attacked[i])
        for i in range(len(y))
    ]
    return torch.stack(losses).sum() / len(y)


def same_gradients(model: nn.Module, one: Tensor, other: Tensor) -> None:
    parameters = list(model.parameters())
    ours, theirs = torch.autograd.grad(one, parameters), torch.autograd.grad(other, parameters)
    for mine, its in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, its, rtol=1e-7, atol=1e-10)


@pytest.mark.parametrize("threat", THREATS, ids=str)
@pytest.mark.parametrize("options", [{}, {"beta": 1.5, "steps": 5, "seed": 4}], ids=str)
def test_loss_and_gradient_are_the_formula_written_out(threat: Threat, options: dict[str, Any]) -> None:
    model, x, y = problem()
    found = TRADES(model, threat, **options)(x, y, INDEX, STEP)
    starts = x + noise(options.get("seed", 0))
    steps, beta = options.get("steps", 10), options.get("beta", 6.0)
    points = torch.stack([climbed(model, x[i], starts[i], threat, steps) for i in range(6)])
    expected = written_out(model, x, points, y, beta)
    torch.testing.assert_close(found.loss, expected, rtol=1e-10, atol=0)
    torch.testing.assert_close(found.logits, model(points).detach(), rtol=1e-10, atol=1e-10)
    same_gradients(model, found.loss, expected)


@pytest.mark.parametrize("threat", THREATS, ids=str)
def test_the_search_compares_answers_of_eval_mode(threat: Threat) -> None:
    _, x, y = problem()
    model = nn.Sequential(nn.BatchNorm2d(1).double(), TinyNet())
    objective = TRADES(model, threat)
    points = found_by(objective, x, y)
    model.eval()
    for i in range(6):
        expected = climbed(model, x[i], (x + noise(0))[i], threat, 10)
        torch.testing.assert_close(points[i], expected, rtol=0, atol=1e-10)
    model.train()
    found = output_at(objective, points, x, y)
    expected = written_out(model, x, points, y, 6.0)
    torch.testing.assert_close(found.loss, expected, rtol=1e-10, atol=0)
    same_gradients(model, found.loss, expected)


@pytest.mark.parametrize("threat, dual, rtol", [(Linf("0.05"), 1, 1e-12), (L2("0.2"), 2, 1e-4)], ids=str)
def test_loss_on_a_linear_model_is_the_closed_form(threat: Threat, dual: int, rtol: float) -> None:
    # Two classes: the divergence grows with the distance along w, to the side on which the noise lies.
    # In l2 a little of the noise across w is left at the end.
    model, x = Linear(classes=2), images(6)
    y = torch.tensor([0, 1, 0, 1, 0, 1])
    w = (model.weight[1] - model.weight[0]).flatten()
    side = (noise(0).flatten(1) @ w).sign().detach()
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
        ours, theirs = objective(x, y).loss, plain(x, y).loss
        torch.testing.assert_close(ours, theirs)
        same_gradients(model, ours, theirs)


@pytest.mark.parametrize("threat", THREATS, ids=str)
def test_gradient_agrees_with_finite_differences_at_fixed_points(threat: Threat) -> None:
    model, x, y = problem()
    objective = TRADES(model, threat)
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


def test_passes_are_the_arithmetic_of_the_method() -> None:
    model, x = Passes(), images(3)
    TRADES(model, Linf(0.1), steps=3)(x, said(model.model, x))
    assert model.modes == [True] + [False] * 3 + [True]


@pytest.mark.parametrize(
    "layer", [nn.BatchNorm2d(1), nn.Dropout(0.5)], ids=lambda layer: type(layer).__name__
)
def test_one_more_pass_where_training_answers_differently(layer: nn.Module) -> None:
    passes, x = Passes(), images(3)
    objective = TRADES(nn.Sequential(layer.double(), passes), Linf(0.1), steps=3)
    with torch.random.fork_rng():
        objective(x, said(passes.model, x))
        assert passes.modes == [True] + [False] * 4 + [True]
        passes.modes.clear()
        objective.eval()
        objective(x, said(passes.model, x))
    assert passes.modes == [False] * 5


@pytest.mark.parametrize("steps", [1, 4])
def test_backward_passes_are_as_many_as_forward_passes(steps: int) -> None:
    model, x = Counted(TinyNet()), images(3)
    TRADES(model, Linf(0.1), steps=steps)(x, said(model.model, x)).loss.backward()
    assert (model.forwards, model.backwards) == (steps + 2, steps + 2)


def test_the_pass_at_the_image_counts_for_batch_norm() -> None:
    _, x, y = problem()
    model = nn.Sequential(nn.BatchNorm2d(1).double(), TinyNet())
    TRADES(model, L2("0.3"), steps=2)(x, y).loss.backward()
    norm = model[0]
    assert isinstance(norm, nn.BatchNorm2d)
    assert int(norm.get_buffer("num_batches_tracked")) == 1
    torch.testing.assert_close(norm.get_buffer("running_mean"), 0.1 * x.mean(dim=(0, 2, 3)))


@settings(max_examples=20)
@given(st.integers(0, 1000), st.sampled_from(["linf", "l2"]), st.floats(0.0001, 0.9), st.integers(1, 3))
def test_points_are_where_the_threat_allows(seed: int, norm: str, eps: float, steps: int) -> None:
    threat: Threat = Linf(eps) if norm == "linf" else L2(eps)
    model, _, y = problem()
    keys = randomness.key(seed, INDEX, "anywhere")
    x = (1.5 * randomness.uniform(keys, SHAPE, torch.float64) - 0.25).clamp(0, 1)
    points = found_by(TRADES(model, threat, steps=steps, seed=seed), x, y)
    assert threat.contains(points, x).all() and not points.requires_grad


@pytest.mark.parametrize(
    "options", [{"beta": 0.5, "steps": 1}, {"steps": 2, "step_size": "1/255", "seed": 3}], ids=str
)
def test_every_option_keeps_the_contract(options: dict[str, Any]) -> None:
    check_objective(lambda model, threat: TRADES(model, threat, **options))


def test_a_given_step_size_is_used() -> None:
    model, x, y = problem()
    points = found_by(TRADES(model, Linf(0.1), steps=2, step_size="1/100"), x, y)
    moved = (points - x - noise(0)).abs().flatten()
    assert all(min(abs(m), abs(m - 0.02)) < 1e-12 for m in moved.tolist()) and (moved > 0.01).any()


def test_a_replaced_threat_is_used() -> None:
    model, x, y = problem()
    objective = TRADES(model, Linf(0.2), steps=5)
    strong = objective(x, y, INDEX, STEP).loss
    objective.threat = Linf("1/1000000")
    weak = objective(x, y, INDEX, STEP).loss
    torch.testing.assert_close(weak, Standard(model)(x, y).loss, rtol=1e-6, atol=0)
    assert strong > 2 * weak


def test_smoothed_labels_change_the_classification_and_nothing_else() -> None:
    model, x, y = problem()
    objective = TRADES(model, L2("0.2"), beta=2.0)
    plain = objective(x, y, INDEX, STEP)
    objective.label_smoothing = 0.1
    smoothed = objective(x, y, INDEX, STEP)
    log_p = model(x).softmax(dim=1).log()
    true = torch.stack([-log_p[i, y[i]] for i in range(6)])
    expected = (0.9 * true - 0.1 * log_p.sum(dim=1) / 5).mean()
    divergences = plain.metrics["divergence"]
    assert torch.equal(smoothed.metrics["divergence"], divergences)
    assert torch.equal(smoothed.logits, plain.logits)
    torch.testing.assert_close(smoothed.loss, expected + 2 * divergences)
    torch.testing.assert_close(plain.loss, true.mean() + 2 * divergences)
    assert abs(smoothed.loss - plain.loss) > 0.01


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_metrics_add_up_to_the_loss(smoothing: float) -> None:
    model, x, y = problem()
    objective = TRADES(model, Linf("0.05"), beta=2.5)
    objective.label_smoothing = smoothing
    found = objective(x, y)
    metrics = found.metrics
    torch.testing.assert_close(metrics["cross_entropy"] + 2.5 * metrics["divergence"], found.loss.detach())
    assert metrics["natural_accuracy"].item() == pytest.approx(4 / 6)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"beta": -1}, "objective.beta: got -1, expected at least 0 (flag --objective.beta)"),
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
        TRADES(TinyNet(), Linf(0.1), **options)
    assert str(caught.value) == message


def test_it_needs_a_threat() -> None:
    with pytest.raises(UserError, match=r"^TRADES needs a threat, such as Linf\('8/255'\) \(field threat\)$"):
        TRADES(TinyNet(), None)  # type: ignore[arg-type]
