from __future__ import annotations

import copy
import math
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from soar import randomness
from soar.attacks.recall import Recall, recalled
from soar.bench.step import Counted
from soar.errors import UserError
from soar.objectives import MMA, Output, Standard, check_objective
from soar.objectives.mma import Boundary, bisect
from soar.shapes import per_example
from soar.threat import L2, Linf, Threat
from soar.training import checkpoints
from tests.attacks.problems import SHAPE, Linear, TinyNet, images, said
from tests.training import small

PATTERN = torch.linspace(-0.5, 0.5, 12, dtype=torch.float64).reshape(1, *SHAPE)


class FixedLinf(Linf):
    """Starts where anyone can compute it."""

    def random_start(self, x: Tensor, keys: Tensor, radius: Tensor | None = None) -> Tensor:
        assert radius is not None
        return x + per_example(radius, x) * PATTERN


class FixedL2(L2):
    """Starts where anyone can compute it."""

    def random_start(self, x: Tensor, keys: Tensor, radius: Tensor | None = None) -> Tensor:
        assert radius is not None
        moved: Tensor = x + per_example(radius, x) * PATTERN / PATTERN.norm() / 2
        return moved


def search(objective: MMA, x: Tensor, y: Tensor, index: Tensor | None = None, step: int = 0) -> Boundary:
    """Give what the search inside a call finds."""
    recall = Recall()
    with recall.recording():
        objective(x, y, torch.arange(len(y)) if index is None else index, step)
    with recall.replaying():
        return recalled(_not_asked)


def holding(found: Boundary) -> Recall:
    """Answer the next search with what was found before."""
    recall = Recall()
    with recall.recording():
        recalled(lambda: found)
    return recall


def _not_asked() -> Boundary:
    raise AssertionError("the search should have been answered")


def network() -> TinyNet:
    """All five classes occur; boundaries are 0.001 to 0.026 away in linf, and 0.003 to 0.08 in l2."""
    model = TinyNet(seed=7)
    last = model.layers[3]
    with torch.no_grad():
        last.get_parameter("bias").sub_(model(images(10)).mean(dim=0))
        for parameter in last.parameters():
            parameter.mul_(8)
    return model


def all_right(count: int = 6) -> tuple[Tensor, Tensor]:
    """Images of which that network is sure."""
    x = images(count)
    return x, said(network(), x)


def some_of_each() -> tuple[Tensor, Tensor]:
    """Images of which the fourth and the ninth are wrong."""
    x, y = all_right(10)
    y[3], y[8] = (y[3] + 1) % 5, (y[8] + 2) % 5
    return x, y


def written_out(
    model: nn.Module, threat: Threat, x: Tensor, y: Tensor, stored: list[float], *, share: float
) -> tuple[Tensor, list[float], int]:
    """The definition, one example after the other; gives loss, margins and how many boundary points count."""
    steps, rounds = 4, 7
    limit, least = 4 * threat.radius, threat.radius / 6
    losses, margins, counted = [], [], 0

    def margin_at(point: Tensor, label: int) -> Tensor:
        z = model(point)[0]
        others = [z[j] for j in range(len(z)) if j != label]
        found: Tensor = torch.stack(others).exp().sum().log() - z[label]
        return found

    def loss_at(point: Tensor, label: int) -> Tensor:
        z = model(point)[0]
        found: Tensor = z.exp().sum().log() - z[label]
        return found

    def back_into_the_ball(delta: Tensor, radius: float) -> Tensor:
        if isinstance(threat, Linf):
            return delta.clamp(-radius, radius)
        return delta * min(1.0, radius / float(delta.norm()))

    for i, label in enumerate(y.tolist()):
        image = x[i : i + 1]
        natural = loss_at(image, label)
        if margin_at(image, label).item() >= 0:
            margins.append(0.0)
            losses.append(natural)
            continue
        radius = min(max(stored[i], least), 1.05 * limit)
        delta = radius * (PATTERN if isinstance(threat, Linf) else PATTERN / PATTERN.norm() / 2)
        for _ in range(steps):
            point = (image + delta).requires_grad_()
            (slope,) = torch.autograd.grad(margin_at(point, label), point)
            uphill = slope.sign() if isinstance(threat, Linf) else slope / slope.norm()
            delta = back_into_the_ball(delta + 2.5 * radius / steps * uphill, radius)
        low, high, length = 0.0, 1.05 * limit, radius
        for _ in range(rounds):
            if margin_at(image + length * delta / radius, label).item() >= 0:
                high = length
            else:
                low = length
            length = (low + high) / 2
        margins.append(high)
        there = loss_at(image + high * delta / radius, label)
        counted += high < limit
        losses.append(share * natural + (1 - share) * (there if high < limit else 0 * there))
    return torch.stack(losses).mean(), margins, counted


@pytest.mark.parametrize("threat", [FixedLinf("0.003"), FixedL2("0.01")], ids=str)
@pytest.mark.parametrize("share", [None, 0.0, 0.8])
def test_loss_gradient_and_margins_are_the_formula_written_out(threat: Threat, share: float | None) -> None:
    model = network()
    x, y = some_of_each()
    options = {} if share is None else {"clean_share": share}
    objective = MMA(model, threat, steps=4, bisections=7, **options)  # type: ignore[arg-type]
    stored = [0.0] * 10
    for step in range(2):  # the second search begins with the margins of the first
        found = objective(x, y, torch.arange(10), step)
        expected, margins, counted = written_out(
            model, threat, x, y, stored, share=1 / 3 if share is None else share
        )
        assert 3 <= counted <= 6, "some boundaries are nearer than the limit and some are not"
        torch.testing.assert_close(found.loss, expected)
        torch.testing.assert_close(objective.margins.table, torch.tensor(margins))
        parameters = list(model.parameters())
        ours = torch.autograd.grad(found.loss, parameters)
        theirs = torch.autograd.grad(expected, parameters)
        for one, other in zip(ours, theirs, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-7, atol=1e-10)
        stored = objective.margins.table.tolist()


class FromImage(L2):
    """Starts at the image, from where every step goes the same way on a linear model."""

    def random_start(self, x: Tensor, keys: Tensor, radius: Tensor | None = None) -> Tensor:
        return x


@pytest.mark.parametrize(
    "threat, dual, stretch",
    # In l2 ten steps leave something of a random start's direction, so that the way is a little longer.
    [(Linf("0.03"), 1, 1.0), (FromImage("0.1"), 2, 1.0), (L2("0.1"), 2, 1.05)],
    ids=["linf", "l2 from the image", "l2"],
)
@pytest.mark.parametrize("bisections", [4, 10])
def test_margins_of_a_linear_model_are_its_distances(
    threat: Threat, dual: int, stretch: float, bisections: int
) -> None:
    # With two classes the soft margin is the margin itself.
    model, x = Linear(classes=2), images(40)
    y = said(model, x)
    distances = model.distances(x, y, dual)
    limit = 4 * threat.radius
    near = distances < limit
    assert 10 <= near.sum() <= 30
    objective = MMA(model, threat, bisections=bisections)
    for step in range(2):
        found = search(objective, x, y, step=step)
        width = 1.05 * limit / 2 ** (bisections - 1)
        assert (found.margins >= distances - 1e-12)[near].all()
        assert (found.margins <= stretch * distances + width)[near].all()
        assert (found.margins[distances > 1.05 * limit] == 1.05 * limit).all()
        assert torch.equal(found.counts == 1, found.margins < limit)


def test_margins_are_kept_by_index_and_wrong_examples_have_none() -> None:
    model = network()
    x, y = some_of_each()
    objective = MMA(model, Linf("0.02"), steps=3)
    index = torch.tensor([7, 2, 19, 4, 5, 11, 1, 8, 9, 3])
    found = search(objective, x, y, index)
    table = objective.margins.table
    assert len(table) == 20
    torch.testing.assert_close(table[index], found.margins.float())
    assert [i for i in range(20) if table[i] > 0] == [1, 2, 3, 5, 7, 8, 11, 19]
    assert found.margins[3] == found.margins[8] == 0
    assert torch.equal(found.points[3], x[3]) and torch.equal(found.points[8], x[8])
    y[0] = (y[0] + 1) % 5
    objective(x[:1], y[:1], index[:1])
    assert objective.margins.table[7] == 0, "what is wrong now loses its margin"
    torch.testing.assert_close(objective.margins.table[index[1:]], found.margins[1:].float())


def test_the_next_search_is_as_wide_as_the_margin_was() -> None:
    radii: list[Tensor] = []

    class Watched(Linf):
        def random_start(self, x: Tensor, keys: Tensor, radius: Tensor | None = None) -> Tensor:
            assert radius is not None
            radii.append(radius)
            return super().random_start(x, keys, radius)

        def project(self, points: Tensor, x: Tensor, radius: Tensor | None = None) -> Tensor:
            assert radius is not None
            radii.append(radius)
            return super().project(points, x, radius)

    model = network()
    x, y = all_right(5)
    y[2] = (y[2] + 1) % 5
    index = torch.tensor([6, 0, 3, 9, 1])
    objective = MMA(model, Watched("0.06"), max_margin="0.2", steps=2)
    objective.margins.store(index[:4], torch.tensor([0.001, 0.125, 0.125, 0.5]))
    objective(x, y, index)
    expected = torch.tensor([0.01, 0.125, 1.05 * 0.2, 0.01], dtype=torch.float64)
    assert len(radii) == 1 + 1 + 2, "the start, its projection, and one after each step"
    for radius in radii:
        torch.testing.assert_close(radius, expected)


@given(st.lists(st.tuples(st.floats(0, 1.5), st.floats(0.01, 1)), min_size=1), st.integers(1, 30))
def test_bisection_ends_just_above_the_threshold(pairs: list[tuple[float, float]], rounds: int) -> None:
    thresholds, first = torch.tensor(pairs, dtype=torch.float64).unbind(dim=1)
    asked: list[Tensor] = []

    def is_wrong(lengths: Tensor) -> Tensor:
        asked.append(lengths)
        return lengths >= thresholds

    found = bisect(is_wrong, first, 1.0, rounds=rounds)
    assert len(asked) == rounds and torch.equal(asked[0], first)
    inside = thresholds <= 1
    assert (found >= thresholds)[inside].all()
    assert (found <= thresholds + 2.0 ** (1 - rounds))[inside].all()
    assert (found[~inside] == 1).all()
    tried = torch.stack([*asked, torch.ones_like(first)])
    assert (tried == found).any(dim=0).all(), "what is returned was tried"


@given(st.integers(0, 1000), st.sampled_from([Linf("0.3"), L2("1.5")]))
def test_points_stay_in_the_pixel_range_and_within_their_margin(seed: int, threat: Threat) -> None:
    keys = randomness.key(seed, torch.arange(6), "x")
    x = (2 * randomness.uniform(keys, SHAPE, torch.float64) - 0.5).clamp(0, 1)
    model = TinyNet()
    found = search(MMA(model, threat, steps=2, bisections=3), x, said(model, x))
    assert found.points.min() >= 0 and found.points.max() <= 1
    assert (threat.norm(found.points - x) <= found.margins + 1e-9).all()
    assert not found.points.requires_grad and not found.margins.requires_grad


@pytest.mark.parametrize("threat", [Linf("0.1"), FromImage("0.3")], ids=str)
def test_an_image_in_the_corner_uphill_has_no_boundary(threat: Threat) -> None:
    model = Linear(classes=2)
    with torch.no_grad():
        model.bias[0] = 100
        x = (model.weight[1:] > model.weight[:1]).double()
    objective = MMA(model, threat)
    found = search(objective, x, torch.tensor([0]))
    torch.testing.assert_close(found.points, x)
    assert found.margins.tolist() == [pytest.approx(1.05 * 4 * threat.radius)] and found.counts.tolist() == [
        0
    ]


class Watching(nn.Module):
    """Notes what every forward pass of a network is like."""

    def __init__(self) -> None:
        super().__init__()
        self.model = network()
        self.seen: list[tuple[bool, bool, bool, int]] = []

    def forward(self, x: Tensor) -> Tensor:
        weight = next(self.parameters())
        self.seen.append((self.training, torch.is_grad_enabled(), weight.requires_grad, len(x)))
        logits: Tensor = self.model(x)
        return logits


def test_the_search_probes_the_right_examples_without_gradients_it_does_not_need() -> None:
    model = Watching()
    x, y = some_of_each()
    MMA(model, Linf("0.02"), steps=3, bisections=5)(x, y, torch.arange(10))
    training, climbing, bisecting = (True, True, True, 10), (False, True, False, 8), (False, False, False, 8)
    assert model.seen == [training, *[climbing] * 3, *[bisecting] * 5, training]
    assert model.training and next(model.parameters()).requires_grad


@pytest.mark.parametrize("steps, bisections", [(1, 1), (4, 6)])
def test_passes_are_the_arithmetic_of_the_method(steps: int, bisections: int) -> None:
    model = Counted(network())
    x, y = some_of_each()
    objective = MMA(model, Linf("0.02"), steps=steps, bisections=bisections)
    objective(x, y, torch.arange(10)).loss.backward()
    assert (model.forwards, model.backwards) == (steps + bisections + 2, steps + 2)


def test_the_search_leaves_statistics_alone_and_the_images_are_what_counts() -> None:
    model = nn.Sequential(nn.BatchNorm2d(1), network()).double()
    other = copy.deepcopy(model)
    x, y = all_right()
    found = MMA(model, Linf("0.1"), steps=2, bisections=3)(x, y, torch.arange(6))
    assert found.metrics["right"] > 0 and found.metrics["margin"] > 0
    other(x)
    for mine, its in zip(model.buffers(), other.buffers(), strict=True):
        torch.testing.assert_close(mine, its)
    assert int(model.get_buffer("0.num_batches_tracked")) == 1


def test_right_is_stricter_than_the_likeliest_class() -> None:
    model, x = TinyNet(), images(24)
    y = said(model, x)
    with torch.no_grad():
        probability = model(x).softmax(dim=1).gather(1, y[:, None])[:, 0]
    sure = probability > 0.5
    assert 10 < sure.sum() < 20
    found = MMA(model, Linf("0.02"))(x, y, torch.arange(24))
    torch.testing.assert_close(found.metrics["right"], sure.double().mean())


def test_a_batch_of_wrong_examples_is_trained_at_the_images_without_a_search() -> None:
    model = Counted(network())
    x, y = all_right()
    y = (y + 1) % 5
    objective = MMA(model, Linf("0.02"))
    found = objective(x, y, torch.arange(6))
    assert model.forwards == 2
    torch.testing.assert_close(found.loss, Standard(model)(x, y).loss)
    assert [float(found.metrics[name]) for name in ("margin", "right", "counted")] == [0, 0, 1]
    assert torch.equal(objective.margins.table, torch.zeros(6))
    boundary = search(objective, x, y)
    assert torch.equal(boundary.points, x) and torch.equal(boundary.counts, torch.ones(6).double())


def test_a_batch_of_right_examples_is_trained_at_their_boundaries() -> None:
    model = network()
    x, y = all_right()
    found = MMA(model, Linf("0.01"), clean_share=0)(x, y, torch.arange(6))
    assert [float(found.metrics[name]) for name in ("right", "counted")] == [1, 1]
    expected = torch.nn.functional.cross_entropy(found.logits, y)
    torch.testing.assert_close(found.loss.detach(), expected)
    # On the boundary by the soft margin the label has a probability of one half, or just below.
    assert math.log(2) <= found.loss.item() < math.log(2) + 0.01


def test_examples_beyond_the_limit_count_only_at_the_images() -> None:
    model = network()
    x, y = all_right()
    objective = MMA(model, Linf("1/10000"), clean_share=0.25)
    found = objective(x, y, torch.arange(6))
    torch.testing.assert_close(found.loss, 0.25 * Standard(model)(x, y).loss)
    assert [float(found.metrics[name]) for name in ("right", "counted")] == [1, 0]
    torch.testing.assert_close(objective.margins.table, torch.full((6,), 1.05 * 4e-4))


def test_metrics_and_logits_say_what_happened() -> None:
    model = network()
    x, y = some_of_each()
    objective = MMA(model, Linf("0.003"))
    boundary = search(objective, x, y)
    with holding(boundary).replaying():
        found = objective(x, y, torch.arange(10))
    torch.testing.assert_close(found.metrics["margin"], boundary.margins.mean())
    torch.testing.assert_close(found.metrics["counted"], boundary.counts.mean())
    assert float(found.metrics["right"]) == 0.8 and 0.2 < float(found.metrics["counted"]) < 1
    torch.testing.assert_close(found.metrics["cross_entropy"], Standard(model)(x, y).loss.detach())
    torch.testing.assert_close(found.logits, model(boundary.points).detach())


def test_gradient_agrees_with_finite_differences_at_fixed_points() -> None:
    model = network()
    x, y = some_of_each()
    objective = MMA(model, L2("0.01"), steps=3)
    boundary = search(objective, x, y)
    assert 2 < boundary.counts.sum() < 10

    def loss() -> Tensor:
        with holding(boundary).replaying():
            output: Output = objective(x, y, torch.arange(10), 0)
            return output.loss

    for weight in model.parameters():
        (slope,) = torch.autograd.grad(loss(), weight)
        nudge = torch.ones_like(weight)
        with torch.no_grad():
            weight.add_(1e-6 * nudge)
            above = loss().item()
            weight.sub_(2e-6 * nudge)
            below = loss().item()
            weight.add_(1e-6 * nudge)
        assert float((slope * nudge).sum()) == pytest.approx((above - below) / 2e-6, rel=1e-4, abs=1e-7)


def test_starts_depend_on_seed_step_and_index() -> None:
    model = network()
    x, y = all_right(4)

    def points(index: Tensor, *, seed: int = 0, step: int = 0) -> Tensor:
        return search(MMA(model, L2("0.1"), steps=1, seed=seed), x, y, index, step).points

    first = points(torch.arange(4))
    assert torch.equal(points(torch.arange(4)), first)
    for other in (
        points(torch.arange(4), seed=1),
        points(torch.arange(4), step=1),
        points(torch.arange(4) + 4),
    ):
        assert not torch.equal(other, first)


def test_limits_follow_the_threat_unless_they_were_given() -> None:
    model = TinyNet()
    assert MMA(model, Linf("6/255")).limits(Linf("6/255")) == pytest.approx((1 / 255, 24 / 255))
    assert MMA(model, Linf("6/255")).limits(Linf("3/255")) == pytest.approx((0.5 / 255, 12 / 255))
    given_both = MMA(model, Linf("6/255"), max_margin="32/255", min_margin=0.005)
    assert given_both.limits(Linf("3/255")) == pytest.approx((0.005, 32 / 255))


def test_a_replaced_threat_is_used() -> None:
    model = network()
    x, y = all_right()
    objective = MMA(model, Linf("0.1"))
    assert float(objective(x, y, torch.arange(6)).metrics["counted"]) == 1
    objective.threat = Linf("1/10000")
    assert float(objective(x, y, torch.arange(6)).metrics["counted"]) == 0


@pytest.mark.parametrize("options", [{"steps": 1, "bisections": 1}, {"clean_share": 0.5, "max_margin": 0.5}])
def test_every_variant_keeps_the_contract(options: dict[str, Any]) -> None:
    check_objective(lambda model, threat: MMA(model, threat, **options))


class Interrupt:
    """Asks the training to stop after a step."""

    def __init__(self, at: int) -> None:
        self.at = at

    def log(self, step: int, row: Mapping[str, float | str]) -> None:
        if step == self.at:
            signal.raise_signal(signal.SIGTERM)

    def close(self) -> None: ...


@pytest.mark.parametrize("at", [4, 9, 12])
def test_an_interrupted_training_resumes_with_its_margins(tmp_path: Path, at: int) -> None:
    def objective() -> MMA:
        return MMA(small.network(), Linf("8/255"), steps=2, bisections=5)

    changes: dict[str, Any] = {"lr": 0.05}

    whole, first, second = objective(), objective(), objective()
    straight = small.trainer(tmp_path / "whole", objective=whole, **changes)
    straight.fit()
    run = tmp_path / "parts"
    assert small.trainer(run, objective=first, sinks=[Interrupt(at)], **changes).fit().steps == at
    newest = checkpoints.newest_usable(run)
    assert newest is not None
    saved = torch.load(newest / "trainer.pt", weights_only=True)["objective"]
    assert torch.equal(saved["_extra_state"], first.margins.table)
    resumed = small.trainer(run, objective=second, resume=True, **changes)
    assert resumed.fit().status == "finished"
    assert torch.equal(second.margins.table, whole.margins.table)
    assert small.same(small.weights(resumed), small.weights(straight))
    assert small.rows(run) == small.rows(tmp_path / "whole")
    assert len(whole.margins.table) == 48 and len(whole.margins.table.unique()) > 8
    assert first.margins.table.count_nonzero() > 0


@pytest.mark.parametrize(
    "options, message",
    [
        ({"steps": 0}, r"objective\.steps: got 0, expected above 0 \(flag --objective\.steps\)"),
        ({"bisections": 0}, r"objective\.bisections: got 0, expected above 0"),
        ({"clean_share": 2}, r"objective\.clean_share: got 2, expected from 0 to 1"),
        ({"max_margin": "0"}, r"objective\.max_margin: got 0, expected a number above 0"),
        ({"min_margin": "wide"}, r"objective\.min_margin: got 'wide', expected a positive number"),
        (
            {"min_margin": 0.2, "max_margin": 0.1},
            r"objective\.min_margin: got 0\.2, expected below objective\.max_margin, which is 0\.1",
        ),
        ({"min_margin": "0.4"}, r"objective\.min_margin: got 0\.4, .* which is 0\.4"),
    ],
)
def test_bad_values_are_refused_when_the_objective_is_made(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        MMA(TinyNet(), Linf("0.1"), **options)


def test_what_it_cannot_do_without_is_asked_for() -> None:
    with pytest.raises(UserError, match="MMA needs a threat"):
        MMA(TinyNet(), None)  # type: ignore[arg-type]
    objective = MMA(TinyNet(), Linf("0.1"))
    with pytest.raises(UserError, match="MMA remembers every example, so its data need indices"):
        objective(images(2), torch.tensor([0, 1]))
