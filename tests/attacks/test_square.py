from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from soar import randomness
from soar.attacks import ATTACKS, Answer, Examples, check_attack, run
from soar.attacks.square import Square
from soar.errors import UserError
from soar.threat import L2, Linf, Threat
from tests.attacks.problems import Linear, TinyNet, images, said
from tests.attacks.replay import Constant, Rough, Shape, examples, follow, pictures

Pixels = list[list[list[float]]]


class ByHand:
    """The search of one example in linf, pixel by pixel, with the numbers that were drawn for it."""

    def __init__(self, some: Examples, i: int, eps: float) -> None:
        self.some, self.i, self.eps = some, i, eps
        self.x: Pixels = some.x[i].tolist()
        self.channels, self.height, self.width = some.x.shape[1:]
        self.best = self.start()
        self.margin = -math.inf

    def start(self) -> Pixels:
        sign = randomness.sign(self.some.keys("square start"), (self.channels, 1, self.width))[self.i]
        return [
            [[self.clip(c, i, j, int(sign[c, 0, j])) for j in range(self.width)] for i in range(self.height)]
            for c in range(self.channels)
        ]

    def clip(self, c: int, i: int, j: int, sign: int) -> float:
        return min(max(self.x[c][i][j] + sign * self.eps, 0.0), 1.0)

    def propose(self, step: int, share: float) -> Pixels:
        """Add 2 eps or -2 eps in a square of the best image and clip, as it is published."""
        key = randomness.key(
            self.some.seed, self.some.keys("square")[[self.i]], "black box step", torch.tensor([step])
        )
        draws = randomness.uniform(key, (2 + self.channels,))[0].tolist()
        side = round(math.sqrt(share * self.height * self.width))
        side = min(max(side, 1), self.height, self.width)
        top, left = int(draws[0] * (self.height - side + 1)), int(draws[1] * (self.width - side + 1))
        points = [[list(row) for row in channel] for channel in self.best]
        for c in range(self.channels):
            for i in range(top, top + side):
                for j in range(left, left + side):
                    moved = points[c][i][j] + (2 if draws[2 + c] >= 0.5 else -2) * self.eps
                    moved = min(max(moved, self.x[c][i][j] - self.eps), self.x[c][i][j] + self.eps)
                    points[c][i][j] = min(max(moved, 0.0), 1.0)
        return points

    def answer(self, points: Pixels, margin: float) -> None:
        if margin > self.margin or margin >= 0:
            self.best, self.margin = points, margin


@pytest.mark.parametrize("shape", [(1, 6, 6), (3, 8, 5), (3, 4, 9), (1, 1, 3)])
def test_the_search_is_its_description_written_out(shape: Shape) -> None:
    model, x, attack, threat = Rough(shape), pictures(4, shape), Square(), Linf(0.1)
    some = examples(x, said(model, x))
    hands = [ByHand(some, i, 0.1) for i in range(4)]
    points = [hand.best for hand in hands]
    # Examples of one batch may stand at different iterations, with squares of different sizes.
    state = replace(attack.start(some, threat), step=torch.tensor([0, 11, 190, 995]))
    shares = [[0.8] * 11 + [0.4] * 29, [0.4] * 40, [0.2] * 11 + [0.1] * 29, [0.05] * 6 + [0.025] * 34]
    for k, (now, asked, answer) in enumerate(follow(attack, state, model, threat, 40)):
        torch.testing.assert_close(asked, torch.tensor(points, dtype=torch.float64), rtol=0, atol=1e-12)
        for i, hand in enumerate(hands):
            hand.answer(points[i], answer.loss[i].item())
            points[i] = hand.propose(int(now.step[i]), shares[i][k])


@pytest.mark.parametrize("threat", [Linf(0.1), L2(0.6)], ids=str)
def test_margins_never_fall_and_belong_to_the_best_points(threat: Threat) -> None:
    shape = (3, 6, 7)
    model, x, attack = Rough(shape), pictures(10, shape), Square()
    some = examples(x, said(model, x))
    before = torch.full((10,), -math.inf, dtype=torch.float64)
    risen = torch.zeros(10)
    for state, _, _ in follow(attack, attack.start(some, threat), model, threat, 60):
        # Beyond zero any margin will do; the engine would have let the example go.
        assert (state.margin >= before.clamp(max=0)).all()
        risen += state.margin > before
        before = state.margin
        if state.step[0] > 0:
            torch.testing.assert_close(attack.score(model(state.best), state), state.margin)
    assert (risen >= 4).all()


def test_a_move_is_kept_if_it_helps_or_reaches_zero() -> None:
    attack, threat = Square(), Linf(0.1)
    state = attack.start(examples(pictures(4, (1, 4, 4)), torch.zeros(4, dtype=torch.int64)), threat)
    state = replace(state, margin=torch.tensor([-1.0, -1.0, 0.0, -1.0]), points=state.points + 0.01)
    loss = torch.tensor([-1.0, -0.5, 0.0, math.nan])
    after = attack.update(state, Answer(torch.zeros(4, 2), loss, None), threat)
    assert after.margin.tolist() == [-1.0, -0.5, 0.0, -1.0]
    kept = [state.best[0], state.points[1], state.points[2], state.best[3]]
    assert torch.equal(after.best, torch.stack(kept))


@given(
    st.tuples(st.sampled_from([1, 3]), st.integers(1, 9), st.integers(1, 9)),
    st.sampled_from(["8/255", 0.1, 0.5, 1]),
    st.integers(0, 9000),
    st.sampled_from([torch.float32, torch.float64]),
)
def test_every_pixel_lies_on_the_edge_of_the_ball(
    shape: Shape, eps: float | str, iteration: int, dtype: torch.dtype
) -> None:
    x, threat, attack = pictures(3, shape).to(dtype), Linf(eps), Square()
    low, high = threat.project(x - 2, x), threat.project(x + 2, x)
    state = attack.start(examples(x, torch.zeros(3, dtype=torch.int64)), threat)
    for k in range(4):
        assert ((state.points == low) | (state.points == high)).all()
        answer = Answer(torch.zeros(3, 2), torch.full((3,), k - 9.0, dtype=dtype), None)
        state = attack.update(replace(state, step=torch.full((3,), iteration + k)), answer, threat)


def test_it_starts_with_vertical_stripes() -> None:
    x = torch.full((200, 3, 5, 6), 0.5, dtype=torch.float64)
    some = examples(x, torch.zeros(200, dtype=torch.int64))
    delta = Square().start(some, Linf(0.25)).points - x
    assert (delta == delta[:, :, :1]).all() and (delta.abs() == 0.25).all()
    # 3600 fair signs; five standard deviations of their mean are 0.083.
    assert delta[:, :, 0].sign().mean().abs() < 0.083
    assert (delta[:, 0] != delta[:, 1]).any() and (delta[0] != delta[1]).any()


@pytest.mark.parametrize("threat, dual, reach", [(Linf(0.15), 1, 1.2), (L2(0.6), 2, 2.0)], ids=str)
def test_it_breaks_linear_models_beyond_their_distance_and_never_before(
    threat: Threat, dual: int, reach: float
) -> None:
    model, x = Linear(classes=2), images(60)
    labels = said(model, x)
    distances = model.distances(x, labels, dual)
    found = run(model, Square(queries=300), threat, x, labels)
    assert found.robust[distances > threat.radius].all()
    within = reach * distances < threat.radius
    # In l2 a window of such a small image has few patterns to offer.
    assert within.sum() >= 15 and not found.robust[within].any()


def test_it_ends_in_the_corner_of_a_linear_model() -> None:
    model, x = Linear(classes=2), images(8)
    labels = said(model, x)
    gradient = (model.weight[1] - model.weight[0]) * (1 - 2 * labels)[:, None, None, None]
    found = run(model, Square(queries=400, p=0.1), Linf("1/1000"), x, labels)
    assert found.robust.sum() >= 7
    corner = x + 0.001 * gradient.sign()
    torch.testing.assert_close(found.adversarial[found.robust], corner[found.robust])


@pytest.mark.parametrize("threat", [Linf(0.1), L2(0.5)], ids=str)
@pytest.mark.parametrize("restarts", [1, 3])
def test_passes_are_the_queries_and_no_gradients(threat: Threat, restarts: int) -> None:
    x, labels = pictures(5, (1, 4, 4)), torch.zeros(5, dtype=torch.int64)
    attack = Square(queries=17, restarts=restarts)
    model = Constant()
    known = run(model, attack, threat, x, labels, clean_logits=model(x).detach(), batch_size=3)
    assert known.robust.all() and (known.forward == 17 * restarts).all() and (known.backward == 0).all()
    asked = run(model, attack, threat, x, labels, batch_size=3)
    assert (asked.forward == 17 * restarts + 1).all()


def test_restarts_help() -> None:
    model, x = TinyNet(), images(60)
    labels = said(model, x)
    robust = [run(model, Square(queries=4, restarts=n), Linf(0.05), x, labels).robust for n in (1, 8)]
    assert robust[1].sum() < robust[0].sum() and not (robust[1] & ~robust[0]).any()


def test_every_example_draws_squares_of_its_own() -> None:
    x = pictures(1, (3, 8, 8)).expand(6, 3, 8, 8)
    state = Square().start(examples(x, torch.zeros(6, dtype=torch.int64)), Linf(0.1))
    moved = [state.points]
    for k in range(2):
        answer = Answer(torch.zeros(6, 2), torch.full((6,), -1.0 - k, dtype=torch.float64), None)
        state = Square().update(state, answer, Linf(0.1))
        moved.append(state.points)
    for points in moved:
        assert len({tuple(one.flatten().tolist()) for one in points}) == 6


def test_a_goal_is_reached_and_nothing_else_counts() -> None:
    model, x = TinyNet(classes=3), images(30)
    labels = said(model, x)
    goal = (labels + 1) % 3
    found = run(model, Square(queries=60), Linf(0.4), x, labels, goal=goal)
    assert (~found.robust).sum() > 5
    assert torch.equal(said(model, found.adversarial) == goal, ~found.robust)


@pytest.mark.parametrize("options", [{}, {"restarts": 2}, {"p": 0.2}])
def test_it_keeps_the_contract(options: dict[str, Any]) -> None:
    check_attack(Square(queries=8, **options))


@pytest.mark.parametrize(
    "options, label",
    [
        ({}, "Square"),
        ({"queries": 1000}, "Square-1000"),
        ({"p": 0.05, "restarts": 2}, "Square p 0.05 x2"),
    ],
)
def test_labels_name_what_differs_from_the_protocol(options: dict[str, Any], label: str) -> None:
    attack = ATTACKS.build("square", {name: str(value) for name, value in options.items()})
    assert attack == Square(**options) and attack.label == label
    assert attack.budget == options.get("queries", 5000)


@pytest.mark.parametrize(
    "bad, message",
    [
        ({"queries": 0}, "attack.queries: got 0, expected at least 1"),
        ({"restarts": 0}, "attack.restarts: got 0, expected at least 1"),
        ({"p": 0.0}, "attack.p: got 0.0, expected a share above 0 and at most 1"),
        ({"p": 1.5}, "attack.p: got 1.5"),
        ({"p": math.nan}, "attack.p: got nan"),
    ],
)
def test_senseless_numbers_are_refused(bad: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        Square(**bad)
