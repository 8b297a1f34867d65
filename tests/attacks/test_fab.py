from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from soar.attacks import ATTACKS, Answer, Examples, check_attack, perturb, run
from soar.attacks.fab import FAB, BorderState
from soar.attacks.hyperplane import nearest
from soar.attacks.oracle import query_model
from soar.errors import UserError
from soar.evaluation.suites import resolve
from soar.threat import L1, L2, Linf, Threat
from tests.attacks.problems import SHAPE, Linear, TinyNet, images, said

KINDS: list[tuple[type[Threat], float]] = [(Linf, 1), (L2, 2)]
kinds = pytest.mark.parametrize("kind, dual", KINDS)
all_kinds = pytest.mark.parametrize("kind, dual", [*KINDS, (L1, math.inf)])


def told(model: nn.Module, x: Tensor, *, entry: int = 0, seed: int = 0) -> Examples:
    """Examples as the engine gives them, with the model's own answers as labels."""
    with torch.no_grad():
        logits = model(x)
    labels, place = logits.argmax(dim=1), torch.arange(len(x))
    nobody, entries = torch.full_like(labels, -1), torch.full_like(labels, entry)
    return Examples(x, labels, nobody, place, place, entries, logits, seed)


def check_distances(
    model: nn.Module, kind: type[Threat], x: Tensor, distances: Tensor, within: float = 1.02
) -> None:
    """Fail unless those whose distance is a little below eps are fooled, and those above it are not."""
    for eps in distances.quantile(torch.tensor([0.4, 0.9]).double()).tolist():
        robust = run(model, FAB(), kind(eps), x, said(model, x)).robust
        assert not robust[distances < eps / within].any()
        assert robust[distances > eps * 1.001].all()


@kinds
@pytest.mark.parametrize("classes", [2, 5])
def test_it_reaches_the_closed_form_of_a_linear_model(kind: type[Threat], dual: float, classes: int) -> None:
    model, x = Linear(classes), images(60)
    distances = model.distances(x, said(model, x), dual)
    # Images near enough to the border that the pixel range does not matter.
    near = distances < 0.3
    assert near.sum() >= 8
    check_distances(model, kind, x[near], distances[near])


def test_in_l1_it_reaches_the_closed_form_where_one_pixel_has_room() -> None:
    model, x = Linear(2), images(60)
    with torch.no_grad():
        model.bias[0] += model(x).diff(dim=1).median()
    distances = model.distances(x, said(model, x), math.inf)
    near = (distances < 0.28) & (distances > 1e-3)
    assert near.sum() >= 20
    check_distances(model, L1, x[near], distances[near])


@kinds
def test_images_at_the_edge_of_the_pixel_range(kind: type[Threat], dual: float) -> None:
    model, x = Linear(5), images(24).round()
    labels = said(model, x)
    w, away = model.weight.detach(), []
    for other in range(5):
        gradient, value = w[other] - w[labels], model(x)[:, other] - model(x).gather(1, labels[:, None])[:, 0]
        move = nearest(x, gradient, value.detach(), kind(1))
        is_there = (value + (gradient * move).flatten(1).sum(dim=1)).abs() < 1e-9
        away.append(torch.where(is_there & (labels != other), kind(1).norm(move), torch.inf))
    distances = torch.stack(away).amin(dim=0)
    assert (distances > 1.05 * model.distances(x, labels, dual)).sum() > 15
    check_distances(model, kind, x, distances)


class Bent(nn.Module):
    """A linear border, but away from it the gradient is another, so that linearizing misleads."""

    def __init__(self, gradient: float) -> None:
        super().__init__()
        self.linear, self.change = Linear(2), gradient - 1

    def forward(self, x: Tensor) -> Tensor:
        side = self.linear(x).diff(dim=1)
        side = side + self.change * (torch.relu(side - 0.1) - torch.relu(-side - 0.1))
        return torch.cat([-side, side], dim=1)


@kinds
@pytest.mark.parametrize("gradient, within", [(0.6, 1.06), (5.0, 1.02)])
def test_it_reaches_a_border_from_where_the_gradient_misleads(
    kind: type[Threat], dual: float, gradient: float, within: float
) -> None:
    model, x = Bent(gradient), images(60)
    distances = model.linear.distances(x, said(model, x), dual)
    near = distances < 0.3
    assert near.sum() >= 8
    check_distances(model, kind, x[near], distances[near], within)


def plain_projection(x: list[float], w: list[float], value: float, dual: float) -> list[float]:
    """The nearest point of a plane, by bisection of the multiplier and nothing else."""
    sign = 1.0 if value >= 0 else -1.0
    down = [sign * gradient for gradient in w]
    room = [p if gradient > 0 else 1 - p for p, gradient in zip(x, down, strict=True)]
    if dual == math.inf:
        moves, left = [0.0] * len(x), abs(value)
        for i in sorted(range(len(x)), key=lambda i: -abs(w[i])):
            moves[i] = -math.copysign(min(room[i], left / abs(down[i])), down[i])
            left = max(left - abs(down[i] * moves[i]), 0.0)
        return moves
    pace = [1.0 if dual == 1 else abs(gradient) for gradient in down]

    def moved(t: float) -> list[float]:
        return [min(t * p, r) if gradient else 0.0 for p, r, gradient in zip(pace, room, down, strict=True)]

    low, high = 0.0, 1e8
    for _ in range(200):
        middle = (low + high) / 2
        gain = sum(abs(gradient) * m for gradient, m in zip(down, moved(middle), strict=True))
        low, high = (middle, high) if gain < abs(value) else (low, middle)
    return [-math.copysign(m, gradient) for m, gradient in zip(moved(high), down, strict=True)]


def plain_fab(
    model: nn.Module, image: Tensor, label: int, target: int, dual: float, steps: int
) -> tuple[list[list[float]], float]:
    """FAB on one image with lists of numbers: every trial, and the shortest way to a wrong answer."""

    def length(move: list[float]) -> float:
        if dual == math.inf:
            return sum(map(abs, move))
        return max(map(abs, move)) if dual == 1 else math.sqrt(sum(m * m for m in move))

    x0: list[float] = image.flatten().tolist()
    x, trials, best = x0, [], math.inf
    for _ in range(steps):
        point = torch.tensor(x, dtype=torch.float64).reshape(1, *image.shape).requires_grad_()
        logits = model(point)[0]
        value = logits[target] - logits[label]
        w: list[float] = torch.autograd.grad(value, point)[0].flatten().tolist()
        offset = sum(a * b for a, b in zip(w, x, strict=True)) - value.item()
        d1 = plain_projection(x, w, sum(a * b for a, b in zip(w, x, strict=True)) - offset, dual)
        d2 = plain_projection(x0, w, sum(a * b for a, b in zip(w, x0, strict=True)) - offset, dual)
        near, far = max(length(d1), 1e-8), max(length(d2), 1e-8)
        a = min(near / (near + far), 0.1)
        x = [
            min(max((1 - a) * (p + 1.05 * m) + a * (q + 1.05 * n), 0.0), 1.0)
            for p, m, q, n in zip(x, d1, x0, d2, strict=True)
        ]
        trials.append(x)
        answer = model(torch.tensor(x, dtype=torch.float64).reshape(1, *image.shape))
        if int(answer.argmax()) != label:
            move = [p - q for p, q in zip(x, x0, strict=True)]
            best = min(best, length(move))
            x = [q + 0.9 * m for q, m in zip(x0, move, strict=True)]
    return trials, best


def followed(
    attack: FAB, model: nn.Module, examples: Examples, threat: Threat, *, always: bool = False
) -> tuple[list[list[Tensor]], BorderState]:
    """Run to the end whoever is fooled; give every example's trials and the last state."""
    state = attack.start(examples, threat)
    trials: list[list[Tensor]] = [[] for _ in examples.labels]
    while not attack.exhausted(state).all():
        is_new = ~state.is_base & (state.step > torch.tensor([len(t) for t in trials]))
        gradient = always or bool(attack.wants_gradient(state).any())
        points, answer = query_model(model, attack, state, threat, gradient=gradient)
        for i in is_new.nonzero()[:, 0].tolist():
            trials[i].append(points[i])
        state = attack.update(state, answer, threat)
    return trials, state


@all_kinds
@pytest.mark.parametrize("entry", [0, 2])
def test_every_trial_is_that_of_a_plain_reimplementation(kind: type[Threat], dual: float, entry: int) -> None:
    model, x = TinyNet(classes=4), images(3)
    x[0] = x[0].round()
    examples, attack = told(model, x, entry=entry), FAB(steps=25)
    trials, state = followed(attack, model, examples, kind(0.5))
    crossings = 0
    for i in range(len(x)):
        ranked = examples.logits[i].argsort(descending=True).tolist()  # type: ignore[index]
        assert ranked[0] == examples.labels[i] and ranked[1 + entry] == state.target[i]
        expected, best = plain_fab(model, x[i], ranked[0], ranked[1 + entry], dual, steps=25)
        found = torch.stack(trials[i]).flatten(1)
        torch.testing.assert_close(found, torch.tensor(expected, dtype=x.dtype), atol=1e-9, rtol=0)
        # A base may turn out to be nearer than any trial.
        assert state.distance[i] <= best + 1e-9
        crossings += math.isfinite(best)
    assert crossings >= 2


def test_gradients_nobody_asked_for_change_nothing() -> None:
    model, x = TinyNet(classes=4), images(6)
    attack, threat = FAB(steps=20), Linf(0.5)
    frugal, last = followed(attack, model, told(model, x), threat)
    lavish, same = followed(attack, model, told(model, x), threat, always=True)
    for one, other in zip(frugal, lavish, strict=True):
        torch.testing.assert_close(torch.stack(one), torch.stack(other), atol=1e-12, rtol=0)
    torch.testing.assert_close(last.distance, same.distance)


@kinds
def test_the_best_point_is_wrong_and_as_near_as_it_says(kind: type[Threat], dual: float) -> None:
    model, x = TinyNet(classes=4), images(8)
    examples = told(model, x)
    trials, state = followed(FAB(steps=15), model, examples, kind(0.5))
    is_found = state.distance.isfinite()
    assert is_found.sum() >= 4
    assert (said(model, state.best) != examples.labels)[is_found].all()
    torch.testing.assert_close(kind(1).norm(state.best - x)[is_found], state.distance[is_found])
    assert torch.equal(state.best[~is_found], x[~is_found])
    for i in is_found.nonzero()[:, 0].tolist():
        wrong = [t for t in trials[i] if int(model(t[None]).argmax()) != examples.labels[i]]
        assert min(float(kind(1).norm((t - x[i])[None])) for t in wrong) >= state.distance[i] - 1e-12


class Out(nn.Module):
    """Says 0 all over the pixel range, though its border is near enough to be aimed at."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(12, dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        side = x.flatten(1) @ self.weight - 13
        return torch.stack([-side, side], dim=1)


def test_trials_that_never_cross_cost_one_pass_a_step() -> None:
    x = images(5)
    found = run(Out(), FAB(steps=10), Linf(0.1), x, torch.zeros(5, dtype=torch.int64))
    # The clean answer, ten linearizations, the last trial, and three judgments before the habit is known.
    assert (found.backward == 10).all() and (found.forward == 1 + 10 + 1 + 3).all()
    assert found.robust.all()


@pytest.mark.parametrize("targets, classes, entries", [(9, 2, 1), (9, 5, 4), (3, 5, 3)])
def test_trials_that_always_cross_waste_no_gradient(targets: int, classes: int, entries: int) -> None:
    model, x = Linear(classes), images(6)
    attack = FAB(steps=10, targets=targets)
    assert attack.entries(classes) == entries
    found = run(model, attack, Linf("1/1000000"), x, said(model, x))
    assert found.robust.all()
    assert (found.backward == 10 * entries).all() and (found.forward == 1 + 20 * entries).all()
    assert attack.budget == 20


def test_it_learns_the_rhythm_of_crossings() -> None:
    attack, threat = FAB(steps=30), Linf(0.1)
    examples = told(Linear(2), images(1))
    state = attack.start(examples, threat)
    label, wasted, missing, trials = int(examples.labels[0]), 0, 0, 0
    while not attack.exhausted(state).all():
        wants = bool(attack.wants_gradient(state)[0])
        does_cross = state.step % 3 == 0
        if not state.is_base[0] and int(state.step[0]) < 30:
            trials += 1
            late = int(state.step[0]) > 9
            wasted += late and bool(does_cross) and wants
            missing += late and not bool(does_cross) and not wants
        logits = torch.zeros(1, 2, dtype=torch.float64)
        logits[0, 1 - label if does_cross else label] = 1
        gradient = torch.ones(1, *SHAPE, dtype=torch.float64) if wants else None
        state = attack.update(state, Answer(logits, torch.full((1,), -0.1).double(), gradient), threat)
    assert (wasted, missing) == (0, 0) and trials >= 29


@kinds
def test_restarts_begin_at_other_points_near_the_image(kind: type[Threat], dual: float) -> None:
    model, x = TinyNet(classes=5), images(6)
    attack, threat = FAB(restarts=3, targets=2), kind(0.2)
    assert attack.entries(classes=5) == 6
    starts = [attack.start(told(model, x, entry=entry), threat) for entry in range(6)]
    for first in starts[:2]:
        assert torch.equal(first.points, x)
    for again in starts[2:]:
        assert (threat.norm(again.points - x) <= 0.1 + 1e-12).all()
        assert (threat.norm(again.points - x) > 0.02).all()
    assert not torch.equal(starts[2].points, starts[4].points)
    assert torch.equal(starts[2].target, starts[0].target) and not torch.equal(
        starts[1].target, starts[0].target
    )
    alone = attack.start(told(model, x[:1], entry=4), threat)
    assert torch.equal(alone.points, starts[4].points[:1])


def test_a_goal_is_the_only_target() -> None:
    model, x = Linear(4), images(12)
    labels = said(model, x)
    goal = model(x).argsort(dim=1, descending=True)[:, 2]
    found = run(model, FAB(steps=40, targets=1), Linf(0.5), x, labels, goal=goal)
    assert (~found.robust).sum() >= 3
    assert torch.equal(said(model, found.adversarial)[~found.robust], goal[~found.robust])


class Broken(nn.Module):
    """Gives answers that are not numbers as soon as the image is touched."""

    def __init__(self, x: Tensor) -> None:
        super().__init__()
        self.model, self.x = Linear(3), x[0]

    def forward(self, x: Tensor) -> Tensor:
        is_clean = (x == self.x).flatten(1).all(dim=1)[:, None]
        logits: Tensor = self.model(x)
        return torch.where(is_clean, logits, logits * torch.nan)


def test_answers_that_are_not_numbers_do_not_stop_it() -> None:
    x = images(1)
    found = run(Broken(x), FAB(steps=5), Linf(0.01), x, said(Linear(3), x))
    assert found.adversarial.isfinite().all()


@pytest.mark.parametrize(
    "options",
    [{"steps": 3}, {"steps": 2, "restarts": 2, "targets": 2}, {"steps": 2, "targets": 3, "beta": 0.5}],
    ids=str,
)
def test_it_keeps_the_contract(options: dict[str, Any]) -> None:
    check_attack(FAB(**options))


@pytest.mark.parametrize(
    "text, label",
    [
        ("fab", "FAB-T"),
        ("fab:steps=20,targets=3,restarts=2", "FAB-T 3 targets 20 steps x2"),
        ("fab:alpha=0.2,eta=1.1,beta=0.5", "FAB-T alpha 0.2 eta 1.1 beta 0.5"),
    ],
)
def test_labels_name_what_differs_from_the_protocol(text: str, label: str) -> None:
    name, _, settings = text.partition(":")
    options = dict(setting.split("=") for setting in filter(None, settings.split(",")))
    assert ATTACKS.build(name, options).label == label
    assert len(resolve(text)) == 1


@pytest.mark.parametrize(
    "bad, message",
    [
        ({"steps": 0}, "attack.steps: got 0, expected at least 1"),
        ({"targets": 0}, "attack.targets: got 0, expected at least 1"),
        ({"restarts": -1}, "attack.restarts: got -1, expected at least 1"),
        ({"alpha": 1.5}, "attack.alpha: got 1.5, expected 0 to 1"),
        ({"alpha": math.nan}, "attack.alpha: got nan, expected 0 to 1"),
        ({"eta": 0.9}, "attack.eta: got 0.9, expected at least 1"),
        ({"eta": math.inf}, "attack.eta: got inf, expected at least 1"),
        ({"beta": 0}, "attack.beta: got 0, expected above 0 and at most 1"),
        ({"beta": 1.1}, "attack.beta: got 1.1, expected above 0 and at most 1"),
    ],
)
def test_senseless_numbers_are_refused(bad: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        FAB(**bad)


def test_it_needs_the_clean_answer() -> None:
    model, x = TinyNet(), images(2)
    with pytest.raises(UserError, match="chooses its targets by the clean logits"):
        perturb(model, FAB(), Linf(0.1), x, said(model, x), index=torch.arange(2), seed=0, step=0)


@kinds
def test_what_is_found_is_projected_and_evaluated_again(kind: type[Threat], dual: float) -> None:
    del dual
    model, x = TinyNet().float(), images(20).float()
    labels, threat = said(model, x), kind(0.05 if kind is Linf else 0.2)
    found = run(model, FAB(steps=20), threat, x, labels)
    fooled = ~found.robust
    assert fooled.any()
    points = found.adversarial[fooled]
    assert torch.equal(threat.project(points, x[fooled]), points)
    assert (said(model, points) != labels[fooled]).all()
