from __future__ import annotations

from dataclasses import replace

import torch

from soar.attacks import Examples
from soar.attacks.oracle import margin
from soar.attacks.simba import probability
from tests.attacks.replay import examples, pictures


def three(goal: list[int]) -> Examples:
    some = examples(pictures(3, (1, 2, 2)), torch.tensor([0, 0, 2]))
    return replace(some, goal=torch.tensor(goal))


LOGITS = torch.tensor([[2.0, 5.0, 1.0], [2.0, 5.0, 1.0], [0.0, 1.0, 4.0]])


def test_margin_grows_towards_any_wrong_class_or_towards_the_goal() -> None:
    assert margin(three([-1, -1, -1]), LOGITS).tolist() == [3.0, 3.0, -3.0]
    # Class 2 is 4 behind class 1; class 1 is 4 ahead of the best other; class 0 is 4 behind class 2.
    assert margin(three([2, 1, 0]), LOGITS).tolist() == [-4.0, 3.0, -4.0]


def test_probability_falls_for_the_label_and_grows_for_the_goal() -> None:
    p = LOGITS.softmax(dim=1)
    away = probability(three([-1, -1, -1]), LOGITS)
    torch.testing.assert_close(away, -torch.stack([p[0, 0], p[1, 0], p[2, 2]]))
    towards = probability(three([2, 1, 0]), LOGITS)
    torch.testing.assert_close(towards, torch.stack([p[0, 2], p[1, 1], p[2, 0]]))
