from __future__ import annotations

import copy
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
from soar.objectives import MART, Objective, Output, Standard, check_objective
from soar.threat import L2, Linf, Threat
from tests.attacks.problems import SHAPE, Linear, Passes, TinyNet, images, said

THREATS: list[Threat] = [Linf("0.05"), L2("0.2")]
INDEX = torch.arange(20, 26)
STEP = 3


def problem() -> tuple[TinyNet, Tensor, Tensor]:
    """Six images, two of them with a label that the model does not give."""
    model, x = TinyNet(seed=8), images(6)
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


def climbed(
    model: nn.Module, image: Tensor, label: Tensor, start: Tensor, threat: Threat, steps: int
) -> Tensor:
    """The search of one example, written out for images that the pixel range does not limit."""
    eps, length = threat.radius, threat.radius * {10: 0.25, 5: 0.5}[steps]
    point = start
    for _ in range(steps):
        leaf = point.clone().requires_grad_()
        (slope,) = torch.autograd.grad(-model(leaf[None])[0].softmax(dim=0)[label].log(), leaf)
        if isinstance(threat, Linf):
            point = image + (point + length * slope.sign() - image).clamp(-eps, eps)
        else:
            delta = point + length * slope / slope.square().sum().sqrt() - image
            point = image + delta * min(1.0, eps / float(delta.square().sum().sqrt()))
    return point


def boosted(attacked: Tensor, label: int) -> Tensor:
    """-log q_y - log(1 - q_k) of one example; 1 - q_k is the sum of the others."""
    q = attacked.softmax(dim=0)
    rival = max((k for k in range(len(q)) if k != label), key=q.tolist().__getitem__)
    others = torch.stack([q[k] for k in range(len(q)) if k != rival]).sum()
    return -q[label].log() - others.log()


def weighted(natural: Tensor, attacked: Tensor, label: int) -> Tensor:
    """(1 - p_y) KL(p || q) of one example, class by class."""
    p, q = natural.softmax(dim=0), attacked.softmax(dim=0)
    divergence = torch.stack([p[k] * (p[k].log() - q[k].log()) for k in range(len(p))]).sum()
    return torch.stack([p[k] for k in range(len(p)) if k != label]).sum() * divergence


def written_out(model: nn.Module, x: Tensor, points: Tensor, y: Tensor, beta: float) -> Tensor:
    natural, attacked = model(x), model(points)
    losses = [
        boosted(attacked[i], int(y[i])) + beta * weighted(natural[i], attacked[i], int(y[i]))
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
    found = MART(model, threat, **options)(x, y, INDEX, STEP)
    starts = x + noise(options.get("seed", 0))
    steps, beta = options.get("steps", 10), options.get("beta", 5.0)
    points = torch.stack([climbed(model, x[i], y[i], starts[i], threat, steps) for i in range(6)])
    expected = written_out(model, x, points, y, beta)
    torch.testing.assert_close(found.loss, expected, rtol=1e-10, atol=0)
    torch.testing.assert_close(found.logits, model(points).detach(), rtol=1e-10, atol=1e-10)
    same_gradients(model, found.loss, expected)


def test_these_problems_have_right_and_wrong_answers_and_rivals_that_change() -> None:
    model, x, y = problem()
    for threat in THREATS:
        attacked = model(found_by(MART(model, threat), x, y))
        assert 0 < int((attacked.argmax(dim=1) != y).sum()) < 6
        hidden = 1e9 * nn.functional.one_hot(y, 5)
        assert ((attacked - hidden).argmax(dim=1) != (model(x) - hidden).argmax(dim=1)).any()


@pytest.mark.parametrize("threat", THREATS, ids=str)
def test_the_search_is_in_eval_mode_and_the_loss_in_training(threat: Threat) -> None:
    _, x, y = problem()
    model = nn.Sequential(nn.BatchNorm2d(1).double(), TinyNet())
    objective = MART(model, threat)
    # The search comes first, so it sees the statistics from before the update.
    before = copy.deepcopy(model).eval()
    points = found_by(objective, x, y)
    for i in range(6):
        expected = climbed(before, x[i], y[i], (x + noise(0))[i], threat, 10)
        torch.testing.assert_close(points[i], expected, rtol=0, atol=1e-10)
    found = output_at(objective, points, x, y)
    expected = written_out(model, x, points, y, 5.0)
    torch.testing.assert_close(found.loss, expected, rtol=1e-10, atol=0)
    same_gradients(model, found.loss, expected)


@pytest.mark.parametrize("threat, dual", [(Linf("0.05"), 1), (L2("0.1"), 2)], ids=str)
def test_two_classes_without_the_divergence_are_twice_the_attacked_cross_entropy(
    threat: Threat, dual: int
) -> None:
    # 1 - q_k is q_y then, and the worst loss of a linear model is softplus(m + eps ||w||).
    model, x = Linear(classes=2), images(6)
    y = torch.tensor([0, 1, 0, 1, 0, 1])
    w = (model.weight[1] - model.weight[0]).flatten()
    margin = (x.flatten(1) @ w) * torch.where(y == 1, -1.0, 1.0)
    worst = margin + threat.radius * torch.linalg.vector_norm(w, ord=dual)
    expected = 2 * torch.nn.functional.softplus(worst).mean()
    found = MART(model, threat, beta=0)(x, y, INDEX, STEP)
    torch.testing.assert_close(found.loss, expected, rtol=1e-4, atol=0)
    same_gradients(model, found.loss, 2 * Standard(model)(found_by(MART(model, threat), x, y), y).loss)


@pytest.mark.parametrize("threat", THREATS, ids=str)
def test_gradient_agrees_with_finite_differences_at_fixed_points(threat: Threat) -> None:
    model, x, y = problem()
    objective = MART(model, threat)
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
@pytest.mark.parametrize("threat", THREATS, ids=str)
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
    model, x = Passes(), images(3)
    MART(model, Linf(0.1), steps=3)(x, said(model.model, x))
    assert model.modes == [False] * 3 + [True, True]


def test_batch_norm_costs_no_more_passes() -> None:
    passes, x = Passes(), images(3)
    MART(nn.Sequential(nn.BatchNorm2d(1).double(), passes), Linf(0.1), steps=3)(x, said(passes.model, x))
    assert passes.modes == [False] * 3 + [True, True]


@pytest.mark.parametrize("steps", [1, 4])
def test_backward_passes_are_as_many_as_forward_passes(steps: int) -> None:
    model, x = Counted(TinyNet()), images(3)
    MART(model, Linf(0.1), steps=steps)(x, said(model.model, x)).loss.backward()
    assert (model.forwards, model.backwards) == (steps + 2, steps + 2)


def test_the_pass_at_the_image_counts_for_batch_norm() -> None:
    _, x, y = problem()
    norm = nn.BatchNorm2d(1).double()
    MART(nn.Sequential(norm, TinyNet()), L2("0.3"), steps=2)(x, y).loss.backward()
    assert int(norm.get_buffer("num_batches_tracked")) == 1
    torch.testing.assert_close(norm.get_buffer("running_mean"), 0.1 * x.mean(dim=(0, 2, 3)))


@settings(max_examples=20)
@given(st.integers(0, 1000), st.sampled_from(["linf", "l2"]), st.floats(0.0001, 0.9), st.integers(1, 3))
def test_points_are_where_the_threat_allows(seed: int, norm: str, eps: float, steps: int) -> None:
    threat: Threat = Linf(eps) if norm == "linf" else L2(eps)
    model, _, y = problem()
    keys = randomness.key(seed, INDEX, "anywhere")
    x = (1.5 * randomness.uniform(keys, SHAPE, torch.float64) - 0.25).clamp(0, 1)
    points = found_by(MART(model, threat, steps=steps, seed=seed), x, y)
    assert threat.contains(points, x).all() and not points.requires_grad


@pytest.mark.parametrize(
    "options", [{"beta": 0.5, "steps": 1}, {"steps": 2, "step_size": "1/255", "seed": 3}], ids=str
)
def test_every_option_keeps_the_contract(options: dict[str, Any]) -> None:
    check_objective(lambda model, threat: MART(model, threat, **options))


def test_a_given_step_size_is_used() -> None:
    model, x, y = problem()
    points = found_by(MART(model, Linf(0.1), steps=2, step_size="1/100"), x, y)
    moved = (points - x - noise(0)).abs().flatten()
    assert all(min(abs(m), abs(m - 0.02)) < 1e-12 for m in moved.tolist()) and (moved > 0.01).any()


def test_a_replaced_threat_is_used() -> None:
    model, x, y = problem()
    objective = MART(model, Linf(0.2), steps=5)
    strong = objective(x, y, INDEX, STEP).loss
    objective.threat = Linf("1/1000000")
    weak = objective(x, y, INDEX, STEP).loss
    torch.testing.assert_close(weak, written_out(model, x, x, y, 5.0), rtol=1e-4, atol=0)
    assert strong > 2 * weak


def test_smoothed_labels_change_the_classification_and_nothing_else() -> None:
    model, x, y = problem()
    objective = MART(model, L2("0.2"), beta=2.0)
    points = found_by(objective, x, y)
    plain = objective(x, y, INDEX, STEP)
    objective.label_smoothing = 0.1
    smoothed = objective(x, y, INDEX, STEP)
    log_q = model(points).softmax(dim=1).log()
    true = torch.stack([-log_q[i, y[i]] for i in range(6)])
    change = (0.9 * true - 0.1 * log_q.sum(dim=1) / 5 - true).mean()
    assert torch.equal(smoothed.metrics["weighted_divergence"], plain.metrics["weighted_divergence"])
    assert torch.equal(smoothed.logits, plain.logits)
    torch.testing.assert_close(smoothed.loss, plain.loss + change)
    assert abs(change) > 0.01


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_metrics_add_up_to_the_loss(smoothing: float) -> None:
    model, x, y = problem()
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
        MART(TinyNet(), Linf(0.1), **options)
    assert str(caught.value) == message


def test_it_needs_a_threat() -> None:
    with pytest.raises(UserError, match=r"^MART needs a threat, such as Linf\('8/255'\) \(field threat\)$"):
        MART(TinyNet(), None)  # type: ignore[arg-type]
