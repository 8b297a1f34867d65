from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from soar import randomness
from soar.attacks import PGD, perturb, run
from soar.attacks.apgd import APGD, apgd_t, border_start
from soar.attacks.apgd_l1 import SparseAPGD, balls
from soar.attacks.attack import fitted
from soar.attacks.oracle import query_model
from soar.threat import L1, L2, Linf
from tests.attacks.problems import SHAPE, Linear, TinyNet, images, said
from tests.attacks.test_apgd import Waves, beginnings

Point = list[float]


class Recipe:
    """l1-APGD for one image in plain Python, one list of numbers a point, as AutoAttack runs it."""

    def __init__(self, model: nn.Module, x: Tensor, label: int, target: int, loss: str, eps: float) -> None:
        self.model, self.label, self.target, self.loss = model, label, target, loss
        self.x, self.eps = x.flatten().tolist(), eps
        self.returns = self.shorter = 0

    def value_and_gradient(self, point: Point) -> tuple[float, Point]:
        z = torch.tensor(point, dtype=torch.float64, requires_grad=True)
        logits = self.model(z.reshape(1, *SHAPE))[0]
        true, order = logits[self.label], logits.sort(descending=True).values
        if self.loss == "ce":
            value = logits.exp().sum().log() - true
        else:
            value = (logits[self.target] - true) / (order[0] - (order[2] + order[3]) / 2 + 1e-12)
        (gradient,) = torch.autograd.grad(value, z)
        return value.item(), gradient.tolist()

    def project(self, point: Point, radius: float) -> Point:
        moves = [p - c for p, c in zip(point, self.x, strict=True)]
        room = [1 - c if m > 0 else c for m, c in zip(moves, self.x, strict=True)]

        def shrunk(t: float) -> Point:
            return [min(max(abs(m) - t, 0.0), r) for m, r in zip(moves, room, strict=True)]

        low, high = 0.0, max(map(abs, moves)) + 1
        for _ in range(80):
            middle = (low + high) / 2
            low, high = (middle, high) if sum(shrunk(middle)) > radius else (low, middle)
        sizes = shrunk(0.0 if sum(shrunk(0.0)) <= radius else high)
        found = []
        for c, m, size in zip(self.x, moves, sizes, strict=True):
            found.append(c if size < 1e-13 else max(0.0, min(1.0, c + math.copysign(size, m))))
        return found

    def changed(self, point: Point) -> int:
        return sum(p != c for p, c in zip(point, self.x, strict=True))

    def trajectory(self, start: Point, stages: list[tuple[float, int]]) -> list[Point]:
        point = best_point = start
        path = [start]
        for stage, (factor, steps) in enumerate(stages):
            radius = factor * self.eps
            if stage:
                point = self.project(best_point, radius)
                path.append(point)
            best, gradient = self.value_and_gradient(point)
            best_point, best_gradient = point, gradient
            eta, pixels, window = radius, self.changed(point), max(int(0.04 * steps), 1)
            for k in range(1, steps + 1):
                count = max(math.ceil(2 * pixels / 3), 1)
                least = sorted(map(abs, gradient), reverse=True)[count - 1]
                signs = [math.copysign(1.0, g) if abs(g) >= least else 0.0 for g in gradient]
                share = eta / sum(map(abs, signs))
                point = self.project([p + share * s for p, s in zip(point, signs, strict=True)], radius)
                path.append(point)
                value, gradient = self.value_and_gradient(point)
                if value > best:
                    best, best_point, best_gradient = value, point, gradient
                if k % window == 0:
                    now = self.changed(best_point)
                    if now < 0.95 * pixels:
                        eta, point, gradient = radius, best_point, best_gradient
                        self.returns += 1
                    else:
                        eta = max(eta / 1.5, radius / 10)
                        self.shorter += 1
                    pixels = now
        return path


def climbed(model: nn.Module, attack: Any, threat: L1, examples: Any) -> tuple[list[Tensor], Any]:
    state = attack.start(examples, threat)
    path = [state.points]
    while bool(attack.wants_gradient(state).any()):
        _, answer = query_model(model, attack, state, threat, gradient=True)
        state = attack.update(state, answer, threat)
        path.append(state.points)
    return path, state


@pytest.mark.parametrize("model", [Waves(), TinyNet()], ids=["waves", "tiny"])
@pytest.mark.parametrize(
    "attack, entry, stages",
    [
        (APGD(steps=31), 0, [(3, 10), (2, 10), (1, 11)]),
        (apgd_t(steps=31), 1, [(3, 10), (2, 10), (1, 11)]),
        (APGD(steps=180), 0, [(3, 54), (2, 54), (1, 72)]),
        (APGD(steps=2), 0, [(1, 2)]),
    ],
    ids=["ce", "second target", "windows of two", "one ball"],
)
def test_every_point_is_that_of_the_recipe_for_one_image(
    model: nn.Module, attack: APGD, entry: int, stages: list[tuple[float, int]]
) -> None:
    x, threat = images(3, seed=1), L1("0.6")
    x[0, 0, 0, :2] = torch.tensor([0.0, 1.0])
    examples = beginnings(model, x, entry)
    path, state = climbed(model, fitted(attack, threat), threat, examples)
    returns = shorter = 0
    for i in range(len(x)):
        recipe = Recipe(model, x[i], int(examples.labels[i]), int(state.target[i]), attack.loss, 0.6)
        expected = recipe.trajectory(path[0][i].flatten().tolist(), stages)
        found = torch.stack([points[i].flatten() for points in path])
        torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64), rtol=0, atol=1e-7)
        returns, shorter = returns + recipe.returns, shorter + recipe.shorter
    assert attack.steps == 2 or (returns and shorter)


@given(st.integers(1, 500))
def test_balls_share_all_steps(steps: int) -> None:
    found = balls(steps)
    assert [ball.begins for ball in found] == [0, *(ball.ends for ball in found[:-1])]
    assert found[-1].ends == steps and all(ball.ends > ball.begins for ball in found)
    assert [ball.factor for ball in found] == ([3, 2, 1] if steps >= 3 else [1])


def test_only_l1_takes_sparse_steps() -> None:
    attack = APGD(steps=7, restarts=2, loss="dlr", targets=3)
    assert fitted(attack, Linf("0.1")) is attack and fitted(attack, L2(1)) is attack
    assert fitted(attack, L1(1)) == SparseAPGD(steps=7, restarts=2, loss="dlr", targets=3)
    assert fitted(PGD(steps=1), L1(1)) == PGD(steps=1)
    assert fitted(attack, L1(1)).entries(10) == attack.entries(10) == 6


def test_the_start_is_the_nearest_point_to_gaussian_noise() -> None:
    x, threat = images(50), L1("0.6")
    examples = beginnings(TinyNet(), x)
    noise = randomness.normal(examples.keys("apgd start"), SHAPE, torch.float64)
    started = fitted(APGD(), threat).start(examples, threat).points
    torch.testing.assert_close(started, threat.scaled(3).project(x + noise, x), rtol=0, atol=1e-14)
    keys = randomness.key(3, torch.arange(50), "border")
    border = border_start(x, keys, threat)
    assert torch.equal(border, threat.project(x + randomness.normal(keys, SHAPE, torch.float64), x))
    torch.testing.assert_close(threat.norm(border - x), torch.full((50,), 0.6, dtype=torch.float64))


@pytest.mark.parametrize("attack", [APGD(steps=30, restarts=2), apgd_t(steps=30, targets=1)])
def test_linear_models_are_fooled_exactly_beyond_their_distance(attack: APGD) -> None:
    model = Linear()
    x = images(16, seed=2)
    labels = said(model, x)
    far = model.distances(x, labels, torch.inf)
    for eps in (0.02, 0.05, 0.1):
        found = run(model, attack, L1(str(eps)), x, labels)
        # A single pixel is moved, and has room for as much.
        assert torch.equal(~found.robust, far < eps)
        assert L1(str(eps)).contains(found.adversarial, x).all()


def test_passes_of_images_that_stay_right() -> None:
    model, x = TinyNet(), images(5)
    found = run(model, APGD(steps=10, restarts=2), L1("1/1000"), x, said(model, x))
    assert found.robust.all()
    # In each of two runs one prediction after every step and one at the start of every ball; the clean one.
    assert found.forward.tolist() == [1 + 2 * 13] * 5
    assert found.backward.tolist() == [2 * 12] * 5
    assert fitted(APGD(steps=10), L1(1)).budget == 13


def test_points_of_training_lie_in_the_ball() -> None:
    model, x = TinyNet(), images(5)
    index = torch.arange(5)
    points = perturb(model, APGD(steps=9), L1("0.3"), x, said(model, x), index=index, seed=0, step=0)
    assert L1("0.3").contains(points, x).all() and (points != x).any()
