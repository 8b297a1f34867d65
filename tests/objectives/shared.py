"""What the tests of several objectives ask alike: formulas, slopes, passes, statistics and refusals."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
from hypothesis import strategies as st
from torch import Tensor, nn

from soar import randomness
from soar.attacks.recall import Recall, recalled
from soar.cost import Counter
from soar.errors import UserError
from soar.objectives import Objective, Output
from soar.threat import L2, Linf, Threat
from tests.attacks.problems import SHAPE, Linear, Passes, TinyNet, images, said

THREATS: list[Threat] = [Linf("0.05"), L2("0.2")]
INDEX = torch.arange(20, 26)
STEP = 3

Kind = Callable[..., Objective]
Problem = tuple[TinyNet, Tensor, Tensor]
Refusal = tuple[dict[str, Any], str]

for_threats = pytest.mark.parametrize("threat", THREATS, ids=str)
for_layers_with_modes = pytest.mark.parametrize(
    "layer", [nn.BatchNorm2d(1), nn.Dropout(0.5)], ids=lambda layer: type(layer).__name__
)


class ExactLoss(nn.Module):
    """Two classes, and for class 0 a cross-entropy of exactly `loss`."""

    def loss(self, x: Tensor) -> Tensor:
        raise NotImplementedError

    def forward(self, x: Tensor) -> Tensor:
        first = -self.loss(x).expm1().log()
        return torch.stack([first, torch.zeros_like(first)], dim=1)


def problem(seed: int = 0) -> Problem:
    """Six images, two of them with a label that the model does not give."""
    model, x = TinyNet(seed=seed), images(6)
    y = said(model, x)
    y[4:] = (y[4:] + 1) % 5
    return model, x, y


def linear_problem() -> tuple[Linear, Tensor, Tensor]:
    """Six images for a linear model of two classes."""
    return Linear(classes=2), images(6), torch.tensor([0, 1, 0, 1, 0, 1])


def logistic(model: Linear, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """v and u = v^T x, for a linear model of two classes whose loss is softplus(u)."""
    v = (model.weight[1 - y] - model.weight[y]).flatten(1)
    return v, (x.flatten(1) * v).sum(dim=1)


def with_batch_norm() -> nn.Sequential:
    """A network that answers differently in training."""
    return nn.Sequential(nn.BatchNorm2d(1).double(), TinyNet())


def loss_of(model: nn.Module, point: Tensor, label: Tensor) -> Tensor:
    """Cross-entropy of one example by itself."""
    loss: Tensor = -model(point[None])[0].softmax(dim=0)[label].log()
    return loss


def divergence(natural: Tensor, attacked: Tensor) -> Tensor:
    """KL of one example, class by class."""
    p, q = natural.softmax(dim=0), attacked.softmax(dim=0)
    return torch.stack([p[k] * (p[k].log() - q[k].log()) for k in range(len(p))]).sum()


def noise(seed: int = 0) -> Tensor:
    """What lies between the image and a start near it."""
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
    value: Callable[[int, Tensor], Tensor], x: Tensor, starts: Tensor, threat: Threat, steps: int
) -> Tensor:
    """Where a search ends, example by example, for images that the pixel range does not limit.

    Args:
        value: what the search climbs, given the example's place in the batch and a point
        x: images
        starts: where the search of each begins
        threat: what limits it
        steps: 5 or 10, each of PGD's length for so many
    """
    eps, length = threat.radius, threat.radius * {10: 0.25, 5: 0.5}[steps]
    ends = []
    for i, (image, point) in enumerate(zip(x, starts, strict=True)):
        for _ in range(steps):
            leaf = point.clone().requires_grad_()
            (slope,) = torch.autograd.grad(value(i, leaf), leaf)
            if isinstance(threat, Linf):
                point = image + (point + length * slope.sign() - image).clamp(-eps, eps)
            else:
                delta = point + length * slope / slope.square().sum().sqrt() - image
                point = image + delta * min(1.0, eps / float(delta.square().sum().sqrt()))
        ends.append(point)
    return torch.stack(ends)


def assert_same_gradients(model: nn.Module, one: Tensor, other: Tensor) -> None:
    parameters = list(model.parameters())
    ours, theirs = torch.autograd.grad(one, parameters), torch.autograd.grad(other, parameters)
    for mine, its in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, its, rtol=1e-7, atol=1e-10)


def assert_same_loss_and_gradients(model: nn.Module, one: Tensor, other: Tensor, rtol: float = 1e-10) -> None:
    torch.testing.assert_close(one, other, rtol=rtol, atol=0)
    assert_same_gradients(model, one, other)


def assert_same_as_finite_differences(model: nn.Module, loss: Callable[[], Tensor], move: float) -> None:
    """Along one random direction of every parameter."""
    parameters = list(model.parameters())
    slopes = torch.autograd.grad(loss(), parameters)
    for which, (weight, slope) in enumerate(zip(parameters, slopes, strict=True)):
        key = randomness.key(which, 0, "nudge")
        nudge = randomness.normal(key, tuple(weight.shape), torch.float64)[0]
        values = []
        for change in (move, -2 * move):
            weight.data.add_(change * nudge)
            values.append(loss().item())
        weight.data.add_(move * nudge)
        assert float((slope * nudge).sum()) == pytest.approx((values[0] - values[1]) / (2 * move), rel=1e-5)


def assert_same_as_finite_differences_at_found_points(objective: Objective, x: Tensor, y: Tensor) -> None:
    points = found_by(objective, x, y)
    assert_same_as_finite_differences(objective.model, lambda: output_at(objective, points, x, y).loss, 1e-5)


def modes_of(kind: Kind, layers: tuple[nn.Module, ...] = (), **options: Any) -> list[bool]:
    """Whether each forward pass was in training mode, with layers in front of the network."""
    passes, x = Passes(), images(3)
    model = nn.Sequential(*layers, passes) if layers else passes
    kind(model, Linf(0.1), **options)(x, said(passes.model, x))
    return passes.modes


def assert_one_more_pass_where_modes_differ(kind: Kind, layer: nn.Module) -> None:
    """Three steps cost four passes in eval mode instead of three, and as many outside training."""
    passes, x = Passes(), images(3)
    objective = kind(nn.Sequential(copy.deepcopy(layer).double(), passes), Linf(0.1), steps=3)
    with torch.random.fork_rng():
        objective(x, said(passes.model, x))
        assert passes.modes == [True] + [False] * 4 + [True]
        passes.modes.clear()
        objective.eval()
        objective(x, said(passes.model, x))
    assert passes.modes == [False] * 5


def passes_of(kind: Kind, **options: Any) -> tuple[int, int]:
    """How many forward and backward passes an update takes."""
    model, x = TinyNet(), images(3)
    y = said(model, x)
    with Counter(model) as counter:
        kind(model, Linf(0.1), **options)(x, y).loss.backward()
    return counter.forwards, counter.backwards


def assert_only_the_image_counts_for_batch_norm(kind: Kind, **options: Any) -> None:
    _, x, y = problem()
    norm = nn.BatchNorm2d(1).double()
    kind(nn.Sequential(norm, TinyNet()), L2("0.3"), **options)(x, y).loss.backward()
    assert int(norm.get_buffer("num_batches_tracked")) == 1
    torch.testing.assert_close(norm.get_buffer("running_mean"), 0.1 * x.mean(dim=(0, 2, 3)))
    assert norm.training and norm.track_running_stats


class Search(NamedTuple):
    """A search whose points must be allowed."""

    seed: int
    norm: type[Threat]
    eps: float
    steps: int


searches = st.builds(
    Search, st.integers(0, 1000), st.sampled_from([Linf, L2]), st.floats(0.0001, 0.9), st.integers(1, 3)
)


def assert_points_are_allowed(kind: Kind, case: Problem, search: Search) -> None:
    """Images of which many pixels are at the ends of their range."""
    model, _, y = case
    threat = search.norm(search.eps)
    keys = randomness.key(search.seed, INDEX, "anywhere")
    x = (1.5 * randomness.uniform(keys, SHAPE, torch.float64) - 0.25).clamp(0, 1)
    points = found_by(kind(model, threat, steps=search.steps, seed=search.seed), x, y)
    assert threat.contains(points, x).all() and not points.requires_grad


def assert_step_size_is_used_near_the_image(kind: Kind, case: Problem) -> None:
    """Two steps of a hundredth from the noise: back and forth, or all the way."""
    model, x, y = case
    points = found_by(kind(model, Linf(0.1), steps=2, step_size="1/100"), x, y)
    moved = (points - x - noise()).abs().flatten()
    assert all(min(abs(m), abs(m - 0.02)) < 1e-12 for m in moved.tolist()) and (moved > 0.01).any()


def assert_replaced_threat_is_used(kind: Kind, case: Problem, harmless: Tensor, rtol: float) -> None:
    """With a threat of almost nothing the loss becomes that of the image."""
    model, x, y = case
    objective = kind(model, Linf(0.2), steps=5)
    strong = objective(x, y, INDEX, STEP).loss
    objective.threat = Linf("1/1000000")
    weak = objective(x, y, INDEX, STEP).loss
    torch.testing.assert_close(weak, harmless, rtol=rtol, atol=0)
    assert strong > 2 * weak


class Smoothing(NamedTuple):
    """What an objective says with hard and with smoothed labels, and the cross-entropy with each."""

    plain: Output
    smoothed: Output
    hard: Tensor
    soft: Tensor


def assert_smoothing_changes_the_classification_alone(
    objective: Objective, points: Tensor, x: Tensor, y: Tensor, *unchanged: str
) -> Smoothing:
    """The loss changes as the cross-entropy at the points that are classified does; some metrics do not."""
    plain = objective(x, y, INDEX, STEP)
    objective.label_smoothing = 0.1
    smoothed = objective(x, y, INDEX, STEP)
    log_p = objective.model(points).softmax(dim=1).log()
    true = torch.stack([-log_p[i, y[i]] for i in range(6)])
    hard, soft = true.mean(), (0.9 * true - 0.1 * log_p.sum(dim=1) / 5).mean()
    for name in unchanged:
        assert torch.equal(smoothed.metrics[name], plain.metrics[name])
    assert torch.equal(smoothed.logits, plain.logits)
    torch.testing.assert_close(smoothed.loss - plain.loss, soft - hard, rtol=0, atol=1e-7)
    assert_same_gradients(objective.model, smoothed.loss - plain.loss, soft - hard)
    assert abs(soft - hard) > 0.01
    return Smoothing(plain, smoothed, hard, soft)


def assert_autocast_changes_nothing(kind: type[Objective], case: Problem, **options: Any) -> None:
    model, x, y = case
    objective = kind(model.float(), Linf(0.1), **options)
    plain = objective(x.float(), y, INDEX, STEP).loss
    with torch.autocast("cpu", torch.bfloat16):
        inside = objective(x.float(), y, INDEX, STEP).loss
    assert inside.dtype == torch.float32 and not kind.allows_bfloat16
    torch.testing.assert_close(inside, plain)


def negative(name: str) -> Refusal:
    return {name: -1}, f"objective.{name}: got -1, expected at least 0 (flag --objective.{name})"


def zero(name: str) -> Refusal:
    return {name: 0}, f"objective.{name}: got 0, expected above 0 (flag --objective.{name})"


def no_steps() -> Refusal:
    return {"steps": 0}, "objective.steps: got 0, expected at least 1 (flag --objective.steps)"


NO_STEP_SIZE: Refusal = (
    {"step_size": "0"},
    "objective.step_size: got 0, expected a number above 0 (flag --objective.step_size)",
)


def for_refusals(*refusals: Refusal) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("options, message", refusals, ids=str)


def assert_refused(kind: Kind, options: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError) as caught:
        kind(TinyNet(), Linf(0.1), **options)
    assert str(caught.value) == message


def assert_refused_without_a_threat(kind: type[Objective]) -> None:
    with pytest.raises(UserError) as caught:
        kind(TinyNet(), None)
    assert str(caught.value) == f"{kind.__name__} needs a threat, such as Linf('8/255') (field threat)"
