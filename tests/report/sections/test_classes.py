from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from soar.evaluation import Assessment, evaluate
from soar.report.sections.classes import ClassOutcome, class_outcomes
from tests.report.linear import linear_target


def flags(text: str) -> Tensor:
    return torch.tensor([character == "1" for character in text])


def assessment(labels: list[int], correct: str, *robust: str) -> Assessment:
    """An assessment whose attacks did what the lines of 0 and 1 say."""
    target = linear_target(count=len(labels), wrong=0)
    made = evaluate(target.model, target.data, target.threat, "fgsm", check=False)
    one = made.attacks[0]
    attacks = tuple(replace(one, label=f"{n}", robust=flags(text)) for n, text in enumerate(robust))
    return replace(made, labels=torch.tensor(labels), correct=flags(correct), attacks=attacks)


def test_classes_are_counted_under_the_worst_case() -> None:
    found = assessment([0, 0, 0, 0, 1, 2], "111011", "110011", "011000")
    ends = torch.tensor([2, 0, 1, 2, 1, 2])
    assert class_outcomes(found, 4, ends) == (
        ClassOutcome(label=0, examples=4, correct=3, robust=1, into=((1, 1), (2, 1))),
        ClassOutcome(label=1, examples=1, correct=1, robust=0, into=()),
        ClassOutcome(label=2, examples=1, correct=1, robust=0, into=()),
        ClassOutcome(label=3, examples=0, correct=0, robust=0, into=()),
    )


def test_the_most_frequent_end_comes_first() -> None:
    found = assessment([0] * 6, "111111", "000000")
    (broken, *_) = class_outcomes(found, 3, torch.tensor([2, 1, 2, 1, 2, 0]))
    assert broken.into == ((2, 3), (1, 2))


def test_where_the_ends_are_not_known_the_counts_are_still_shown() -> None:
    found = assessment([0, 0, 1], "110", "100")
    (broken, *_) = class_outcomes(found, 3, None)
    assert (broken.examples, broken.correct, broken.robust, broken.into) == (2, 2, 1, ())
