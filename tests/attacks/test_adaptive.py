from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from soar.attacks import Adaptive, Examples, run
from soar.attacks.oracle import query_model
from soar.errors import UserError
from soar.threat import L2, Linf, Threat
from tests.attacks.problems import TinyNet, images, said

THREATS = [Linf(0.05), L2(0.2)]


class Planes(nn.Module):
    """A linear classifier whose borders lie at known distances from the middle of the cube.

    Class 0 is the label; class t has the logit -gap_t + w_t sum(x - 1/2), with one weight for all pixels.
    """

    def __init__(self, gaps: Tensor, weights: Tensor) -> None:
        super().__init__()
        self.gaps, self.weights = gaps, weights

    def forward(self, x: Tensor) -> Tensor:
        moved = (x - 0.5).flatten(1).sum(dim=1, keepdim=True)
        others = moved * self.weights - self.gaps
        return torch.cat([torch.zeros_like(moved), others], dim=1)


def middle(count: int = 1) -> tuple[Tensor, Tensor]:
    return torch.full((count, 1, 2, 2), 0.5, dtype=torch.float64), torch.zeros(count, dtype=torch.long)


@pytest.mark.parametrize("threat", THREATS, ids=str)
def test_results_do_not_depend_on_batch_size_or_order(threat: Threat) -> None:
    model, x = TinyNet(), images(24)
    labels = said(model, x)
    attack = Adaptive(steps=3, restarts=12, patience=6)
    found = {size: run(model, attack, threat, x, labels, batch_size=size) for size in (1, 7, 64)}
    assert 0 < found[1].robust.sum() < 24
    assert len(found[1].forward.unique()) > 5, "examples get budgets of their own"
    for size in (7, 64):
        for field in ("robust", "predictions", "forward", "backward"):
            assert torch.equal(getattr(found[size], field), getattr(found[1], field)), field
        torch.testing.assert_close(found[size].adversarial, found[1].adversarial, rtol=0, atol=1e-9)
    order = torch.arange(23, -1, -1)
    turned = run(model, attack, threat, x[order], labels[order], index=order, batch_size=7)
    assert torch.equal(turned.robust[order], found[1].robust)
    assert torch.equal(turned.forward[order], found[1].forward)


@pytest.mark.parametrize("threat", [Linf(0.1), L2(0.2)], ids=str)
def test_a_linear_model_is_broken_exactly_within_the_radius(threat: Threat) -> None:
    # From the middle of a 2 x 2 image both balls reach sum(x - 1/2) = 0.4.
    x, y = middle()
    for gap, robust in ((0.399, False), (0.401, True)):
        model = Planes(torch.tensor([9.0, gap]), torch.tensor([1.0, 1.0]))
        assert bool(run(model, Adaptive(), threat, x, y).robust) == robust


def test_restarts_are_in_inverse_proportion_to_what_is_missing() -> None:
    # With one wrong class, the first run gains 0.4 of the gap, so 0.4 patience / missing restarts follow.
    x, y = middle()

    def steps(restarts: int) -> int:
        """Count the steps: each restart takes 5 times those of the first run, every other one 7 more."""
        return 10 + 50 * restarts + 7 * ((restarts + 1) // 2)

    for gap, restarts in ((0.5, 16), (0.6, 8), (0.8, 4), (1.2, 2), (2.1, 0)):
        model = Planes(torch.tensor([gap]), torch.tensor([1.0]))
        found = run(model, Adaptive(steps=10, restarts=30, patience=4.0001), Linf(0.1), x, y)
        assert int(found.backward) == steps(restarts), gap
        assert int(found.forward) == 1 + steps(restarts) + restarts + 1, gap
    model = Planes(torch.tensor([0.401]), torch.tensor([1.0]))
    found = run(model, Adaptive(steps=10, restarts=3), Linf(0.1), x, y)
    assert int(found.backward) == steps(3), "never more than `restarts`"


def test_a_model_without_gradients_gets_no_restarts() -> None:
    x, y = middle()
    found = run(Planes(torch.tensor([1.0, 2.0]), torch.zeros(2)), Adaptive(), Linf(0.1), x, y)
    assert bool(found.robust) and int(found.backward) == 20


def targets_of(model: nn.Module, attack: Adaptive, threat: Threat, count: int) -> list[int]:
    """Return the targets of the first runs after the first, without repeating those of a run."""
    x, y = middle()
    with torch.no_grad():
        examples = Examples.of(x, y, logits=model(x))
    state: Any = attack.start(examples, threat)
    found: dict[int, int] = {}
    while int(state.run) <= count and not bool(state.is_over):
        gradient = bool(attack.wants_gradient(state))
        _, answer = query_model(model, attack, state, threat, gradient=gradient)
        state = attack.update(state, answer, threat)
        if int(state.step) >= 0 and int(state.target) >= 0:
            found[int(state.run)] = int(state.target)
    return [found[one] for one in sorted(found)][:count]


def test_few_classes_are_tried_in_the_order_in_which_they_came_nearest() -> None:
    # The first run climbs to class 4, and leads to gaps of 0.9, 0.64, 1.5 and 0.2.
    model = Planes(torch.tensor([1.0, 1.0, 1.5, 0.6]), torch.tensor([0.25, 0.9, 0.0, 1.0]))
    assert targets_of(model, Adaptive(steps=3, patience=1e9), Linf(0.1), 3) == [2, 1, 3]


def test_many_classes_are_ranked_by_their_linearized_distance() -> None:
    # 99 wrong classes: the logits rank class 1 first, but 30 is nearest, then 20, then 10.
    gaps, weights = torch.linspace(1, 2, 99), torch.full((99,), 0.01)
    weights[[29, 19, 9]] = torch.tensor([2.0, 1.5, 1.1])
    assert targets_of(Planes(gaps, weights), Adaptive(steps=3, patience=1e9), Linf(0.1), 3) == [30, 20, 10]
    distances = gaps[[29, 19, 9]] / (4 * weights[[29, 19, 9]])
    assert distances.tolist() == sorted(distances.tolist())


def test_the_nearest_of_a_hundred_classes_is_found_where_the_likeliest_is_not() -> None:
    # Only class 25 can be reached within the ball, in the direction that leads away from all others.
    gaps, weights = torch.linspace(1, 2, 99), torch.full((99,), 0.8)
    gaps[24], weights[24] = 1.3, -3.3
    x, y = middle(8)
    model = Planes(gaps, weights)
    assert not bool(run(model, Adaptive(steps=5), Linf(0.1), x, y).robust.any())


def test_a_goal_is_the_only_target() -> None:
    model, x = TinyNet(), images(30)
    labels = said(model, x)
    goal = (labels + 1) % 10
    found = run(model, Adaptive(steps=5, restarts=2), Linf(0.06), x, labels, goal=goal)
    assert 0 < int(found.robust.sum()) < 30
    assert torch.equal(found.predictions[~found.robust], goal[~found.robust])


def test_numbers_that_make_no_sense_are_refused() -> None:
    for options in ({"steps": 0}, {"restarts": -1}, {"patience": -1.0}, {"patience": math.inf}):
        with pytest.raises(UserError, match=f"attack.{next(iter(options))}"):
            Adaptive(**options)
    with pytest.raises(UserError, match="ranks targets by the clean logits"):
        Adaptive().start(Examples.of(*middle()), Linf(0.1))
