from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from soar import losses, randomness
from soar.attacks import ATTACKS, Examples, check_attack, run
from soar.attacks.apgd import APGD, apgd_t, border_start
from soar.attacks.apgd_schedule import checkpoints, first_pace, next_pace
from soar.attacks.oracle import query_model
from soar.errors import UserError
from soar.threat import L2, Linf, Threat
from tests.attacks.problems import SHAPE, Linear, TinyNet, images, said

KINDS: list[tuple[type[Threat], int]] = [(Linf, 1), (L2, 2)]


class Recipe:
    """Auto-PGD for one image in plain Python, one list of numbers a point.

    It follows AutoAttack to the letter: in l2 scale into the ball, then clip.
    """

    def __init__(
        self, model: nn.Module, x: Tensor, label: int, target: int, loss: str, threat: Threat
    ) -> None:
        self.model, self.label, self.target, self.loss = model, label, target, loss
        self.x, self.eps, self.is_l2 = x.flatten().tolist(), threat.radius, isinstance(threat, L2)
        self.halvings = 0

    def value_and_gradient(self, point: list[float]) -> tuple[float, list[float]]:
        z = torch.tensor(point, dtype=torch.float64, requires_grad=True)
        logits = self.model(z.reshape(1, *SHAPE))[0]
        true, order = logits[self.label], logits.sort(descending=True).values
        if self.loss == "ce":
            value = logits.exp().sum().log() - true
        elif self.target >= 0:
            value = (logits[self.target] - true) / (order[0] - (order[2] + order[3]) / 2 + 1e-12)
        else:
            other = max(logits[k] for k in range(len(logits)) if k != self.label)
            value = (other - true) / (order[0] - order[2] + 1e-12)
        (gradient,) = torch.autograd.grad(value, z)
        return value.item(), gradient.tolist()

    def project(self, point: list[float]) -> list[float]:
        moves = [p - c for p, c in zip(point, self.x, strict=True)]
        if self.is_l2:
            length = math.sqrt(sum(m * m for m in moves))
            moves = [m * min(1.0, self.eps / length) for m in moves]
        else:
            moves = [max(-self.eps, min(self.eps, m)) for m in moves]
        return [max(0.0, min(1.0, c + m)) for c, m in zip(self.x, moves, strict=True)]

    def direction(self, gradient: list[float]) -> list[float]:
        if self.is_l2:
            length = math.sqrt(sum(s * s for s in gradient))
            return [s / length for s in gradient]
        return [float((s > 0) - (s < 0)) for s in gradient]

    def trajectory(self, start: list[float], steps: int) -> list[list[float]]:
        point, old, eta = start, start, 2 * self.eps
        best, gradient = self.value_and_gradient(start)
        best_point, best_gradient = start, gradient
        window = max(int(0.22 * steps), 1)
        since, was_halved, best_at_check = 0, True, best
        seen, path = [0.0], [start]
        for k in range(steps):
            a = 1.0 if k == 0 else 0.75
            up = zip(point, self.direction(gradient), strict=True)
            z = self.project([p + eta * d for p, d in up])
            mixed = [p + a * (q - p) + (1 - a) * (p - o) for p, q, o in zip(point, z, old, strict=True)]
            old, point = point, self.project(mixed)
            path.append(point)
            value, gradient = self.value_and_gradient(point)
            seen.append(value)
            if value > best:
                best, best_point, best_gradient = value, point, gradient
            since += 1
            if since == window:
                ups = sum(seen[-i] > seen[-i - 1] for i in range(1, window + 1))
                halve = ups <= 0.75 * window or (not was_halved and best <= best_at_check)
                if halve:
                    eta, point, gradient = eta / 2, best_point, best_gradient
                    self.halvings += 1
                was_halved, best_at_check, since = halve, best, 0
                window = max(window - max(int(0.03 * steps), 1), max(int(0.06 * steps), 1))
        return path


def beginnings(model: nn.Module, x: Tensor, entry: int = 0) -> Examples:
    with torch.no_grad():
        logits = model(x)
    labels, place = logits.argmax(dim=1), torch.arange(len(x))
    goal, entries = torch.full_like(labels, -1), torch.full_like(labels, entry)
    return Examples(x, labels, goal, place, place, entries, logits, seed=0)


def climbed(model: nn.Module, attack: APGD, threat: Threat, examples: Examples) -> tuple[list[Tensor], Any]:
    """All points of an attack that nobody leaves, and the last state."""
    state = attack.start(examples, threat)
    path = [state.points]
    while bool(attack.wants_gradient(state).any()):
        _, answer = query_model(model, attack, state, threat, gradient=True)
        state = attack.update(state, answer, threat)
        path.append(state.points)
    return path, state


class Waves(nn.Module):
    """Hills and valleys in every direction, so that points, best points and lengths all part ways."""

    def __init__(self) -> None:
        super().__init__()
        keys = randomness.key(0, torch.arange(8), "waves")
        self.inner = nn.Parameter(4 * randomness.normal(keys, (12,), torch.float64))
        self.outer = nn.Parameter(randomness.normal(keys + 1, (5,), torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        return (x.flatten(1) @ self.inner.T).sin() @ self.outer


# In l2 the two projections agree only while no pixel is clipped: 0.25 cannot leave [0, 1] from [0.3, 0.7].
@pytest.mark.parametrize("threat", [Linf("0.1"), Linf("0.45"), L2("0.25")], ids=str)
@pytest.mark.parametrize("model", [Waves(), TinyNet()], ids=["waves", "tiny"])
@pytest.mark.parametrize(
    "attack, entry",
    [(APGD(steps=31), 0), (APGD(steps=31, loss="dlr"), 0), (apgd_t(steps=31), 1), (APGD(), 0)],
    ids=["ce", "dlr", "second target", "ce 100 steps"],
)
def test_every_point_is_that_of_the_recipe_for_one_image(
    threat: Threat, model: nn.Module, attack: APGD, entry: int
) -> None:
    x = images(3, seed=1)
    examples = beginnings(model, x, entry)
    path, state = climbed(model, attack, threat, examples)
    halvings = []
    for i in range(len(x)):
        label, target = int(examples.labels[i]), int(state.target[i])
        recipe = Recipe(model, x[i], label, target, attack.loss, threat)
        expected = recipe.trajectory(path[0][i].flatten().tolist(), attack.steps)
        found = torch.stack([points[i].flatten() for points in path])
        # At the top of a hill rounding decides which point is best; such points are 1e-8 apart.
        torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64), rtol=0, atol=1e-7)
        halvings.append(recipe.halvings)
    assert max(halvings) >= 3


def test_checkpoints_of_the_protocol() -> None:
    assert checkpoints(100) == (22, 41, 57, 70, 80, 87, 93, 99)
    assert checkpoints(1) == (1,)
    assert checkpoints(10) == (2, 3, 4, 5, 6, 7, 8, 9, 10)


@given(st.integers(1, 400))
def test_checkpoints_come_closer_until_the_shortest_window(steps: int) -> None:
    at = (0, *checkpoints(steps))
    windows = [b - a for a, b in pairwise(at)]
    assert windows == sorted(windows, reverse=True) and at[-1] <= steps
    assert windows[0] == max(int(0.22 * steps), 1) and windows[-1] >= max(int(0.06 * steps), 1)


@given(st.lists(st.integers(0, 9), min_size=51, max_size=51))
def test_lengths_are_halved_by_the_two_conditions(values: list[int]) -> None:
    steps = 50
    pace = first_pace(torch.ones(1, dtype=torch.float64))
    found = []
    for k, value in enumerate(values):
        pace, _ = next_pace(pace, torch.tensor([float(value)], dtype=torch.float64), torch.tensor([k]), steps)
        found.append(pace.length.item())
        assert pace.best.item() == max(values[: k + 1])
    length, before, was_halved, ends = 1.0, 0, True, checkpoints(steps)
    compared = [0, *values[1:]]
    for end in ends:
        ups = sum(compared[k] > compared[k - 1] for k in range(before + 1, end + 1))
        stuck = not was_halved and max(values[: end + 1]) == max(values[: before + 1])
        was_halved = ups <= 0.75 * (end - before) or stuck
        length, before = length / 2 if was_halved else length, end
        assert found[end] == length


@pytest.mark.parametrize("threat", [Linf("0.1"), L2("0.25")], ids=str)
def test_starts_lie_on_the_border(threat: Threat) -> None:
    x = images(200)
    points = border_start(x, randomness.key(0, torch.arange(200), "start"), threat)
    torch.testing.assert_close(threat.norm(points - x), torch.full((200,), threat.radius, dtype=x.dtype))
    # Uniform numbers have a third of the largest square on average, a little more once scaled to it.
    share = (points - x).square().mean() / threat.radius**2
    assert share.item() == pytest.approx(1 / 12 if isinstance(threat, L2) else 0.40, abs=0.02)


def test_the_best_point_never_gets_worse_and_is_where_it_was_seen() -> None:
    model, x, threat, attack = TinyNet(), images(6), Linf("0.2"), APGD(steps=40)
    state = attack.start(beginnings(model, x), threat)
    best = torch.full((6,), -torch.inf, dtype=torch.float64)
    for _ in range(40):
        _, answer = query_model(model, attack, state, threat, gradient=True)
        state = attack.update(state, answer, threat)
        assert (state.pace.best >= best).all() and (state.pace.best >= answer.loss).all()
        best = state.pace.best
    with torch.no_grad():
        again = losses.cross_entropy(model(state.best_points), state.examples.labels)
    torch.testing.assert_close(again, best)


@pytest.mark.parametrize("kind, dual", KINDS)
@pytest.mark.parametrize("classes", [2, 3, 10])
@pytest.mark.parametrize(
    "attack", [APGD(steps=30), APGD(steps=30, loss="dlr"), APGD(steps=30, loss="margin"), apgd_t(steps=30)]
)
def test_the_closed_form_of_a_linear_model_is_reached(
    kind: type[Threat], dual: int, classes: int, attack: APGD
) -> None:
    model, x = Linear(classes), images(40)
    labels = said(model, x)
    distances = model.distances(x, labels, dual)
    # Images near enough to the border that the pixel range does not matter.
    near = (distances < 0.25).nonzero()[:3, 0]
    assert len(near) == 3
    for i in near.tolist():
        one, label, reach = x[i : i + 1], labels[i : i + 1], distances[i].item()
        too_little = run(model, attack, kind(reach * 0.99), one, label)
        assert too_little.robust.item()
        # Among many classes a climb away from the label can end on the hill of another than the nearest.
        if classes <= 3 or attack.targets:
            assert not run(model, attack, kind(reach * 1.01), one, label).robust.item()


class Corner(nn.Module):
    """Predicts 1 once the first three pixels all exceed 0.6: gradients show one pixel at a time."""

    def __init__(self) -> None:
        super().__init__()
        self.level = nn.Parameter(torch.tensor(0.6, dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        lowest = x.flatten(1)[:, :3].amin(dim=1) - self.level
        return torch.stack([torch.zeros_like(lowest), lowest], dim=1)


@pytest.mark.parametrize("kind, order", [(Linf, math.inf), (L2, 2)])
@pytest.mark.parametrize("attack", [APGD(), apgd_t()])
def test_a_piecewise_linear_model_is_fooled_at_its_distance(
    kind: type[Threat], order: float, attack: APGD
) -> None:
    model, x = Corner(), images(20)
    labels = said(model, x)
    missing = (0.6 - x.flatten(1)[:, :3]).clamp(min=0)
    distances = torch.linalg.vector_norm(missing, ord=order, dim=1)
    for i in (labels == 0).nonzero()[:3, 0].tolist():
        one, label, reach = x[i : i + 1], labels[i : i + 1], distances[i].item()
        assert not run(model, attack, kind(reach * 1.01), one, label).robust.item()
        assert run(model, attack, kind(reach * 0.99), one, label).robust.item()


@pytest.mark.parametrize(
    "attack, classes, runs",
    [
        (APGD(steps=7), 5, 1),
        (APGD(steps=7, restarts=3), 5, 3),
        (apgd_t(steps=7), 2, 1),
        (apgd_t(steps=7), 3, 2),
        (apgd_t(steps=7), 12, 9),
        (apgd_t(steps=7, targets=4, restarts=2), 12, 8),
    ],
)
def test_a_run_costs_a_gradient_a_step_and_one_more_prediction(attack: APGD, classes: int, runs: int) -> None:
    model, x = Linear(classes), images(5)
    model.bias.data[0] = 1000
    labels = torch.zeros(5, dtype=torch.int64)
    with torch.no_grad():
        logits = model(x)
    for size in (2, 128):
        found = run(model, attack, Linf("0.1"), x, labels, clean_logits=logits, batch_size=size)
        assert found.robust.all()
        assert found.forward.tolist() == [runs * 8] * 5 and found.backward.tolist() == [runs * 7] * 5


def test_targets_are_the_likely_classes_of_the_clean_image() -> None:
    model, x = TinyNet(), images(3)
    ranked = beginnings(model, x).logits
    assert ranked is not None
    for entry in range(8):
        state = apgd_t().start(beginnings(model, x, entry), Linf("0.1"))
        order = ranked.argsort(dim=1, descending=True)
        assert torch.equal(state.target, order[:, 1 + entry % 4])


def test_a_goal_is_climbed_to() -> None:
    model, x = TinyNet(), images(20)
    goal = (said(model, x) + 1) % 5
    found = run(model, APGD(steps=20), Linf("0.5"), x, said(model, x), goal=goal)
    fooled = ~found.robust
    assert fooled.sum() > 10
    assert torch.equal(said(model, found.adversarial[fooled]), goal[fooled])


@pytest.mark.parametrize(
    "attack, label",
    [
        (APGD(), "APGD-CE"),
        (APGD(loss="dlr"), "APGD-DLR"),
        (APGD(loss="margin"), "APGD-margin"),
        (APGD(steps=20, restarts=5), "APGD-CE 20 steps x5"),
        (apgd_t(), "APGD-T"),
        (apgd_t(steps=20, targets=3, restarts=2), "APGD-T 3 targets 20 steps x2"),
        (APGD(loss="ce", targets=9), "APGD-T CE"),
        (ATTACKS.build("apgd-t", {"steps": "50"}), "APGD-T 50 steps"),
        (ATTACKS.build("apgd", {"loss": "dlr"}), "APGD-DLR"),
    ],
)
def test_labels_name_what_differs_from_the_protocol(attack: APGD, label: str) -> None:
    assert attack.label == label


@pytest.mark.parametrize(
    "options",
    [
        {"steps": 9},
        {"steps": 1},
        {"steps": 4, "restarts": 3},
        {"steps": 6, "loss": "dlr"},
        {"steps": 6, "loss": "margin"},
        {"steps": 4, "loss": "dlr", "targets": 9},
    ],
)
def test_the_contract_is_kept_with_every_option(options: dict[str, Any]) -> None:
    check_attack(APGD(**options))


@pytest.mark.parametrize(
    "build, bad, message",
    [
        (APGD, {"steps": 0}, "attack.steps: got 0, expected at least 1"),
        (APGD, {"restarts": 0}, "attack.restarts: got 0, expected at least 1"),
        (APGD, {"targets": -1}, "attack.targets: got -1, expected at least 0"),
        (APGD, {"loss": "drl"}, r"unknown loss 'drl' \(attack.loss\); did you mean 'dlr'"),
        (apgd_t, {"targets": 0}, "attack.targets: got 0, expected at least 1"),
    ],
)
def test_senseless_options_are_refused(build: Any, bad: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        build(**bad)
