from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from soar.data import Split
from soar.evaluation import Assessment, evaluate
from soar.evaluation.assessment import WORST
from soar.report.content import Broken
from soar.report.exhibits.classes import classes_broken, found_ends
from soar.report.exhibits.subject import Subject
from soar.threat import Linf
from tests.attacks.problems import TinyNet, said
from tests.report.linear import linear_subject, split_of


def flags(text: str) -> Tensor:
    return torch.tensor([character == "1" for character in text])


def assessment(labels: list[int], correct: str, *robust: str) -> Assessment:
    """An assessment whose attacks did what the lines of 0 and 1 say."""
    subject = linear_subject(count=len(labels), wrong=0)
    made = evaluate(subject.model, subject.split, subject.threat, "fgsm", check=False)
    one = made.attacks[0]
    attacks = tuple(replace(one, label=f"{n}", robust=flags(text)) for n, text in enumerate(robust))
    return replace(made, labels=torch.tensor(labels), correct=flags(correct), attacks=attacks)


def test_classes_are_counted_under_the_worst_case() -> None:
    found = assessment([0, 0, 0, 0, 1, 2], "111011", "110011", "011000")
    ends = torch.tensor([2, 0, 1, 2, 1, -1])
    assert classes_broken(found, 4, ends) == (
        Broken(label=0, examples=4, correct=3, robust=1, into=((1, 1), (2, 1))),
        Broken(label=1, examples=1, correct=1, robust=0, into=()),
        Broken(label=2, examples=1, correct=1, robust=0, into=()),
        Broken(label=3, examples=0, correct=0, robust=0, into=()),
    )


def test_the_most_frequent_end_comes_first() -> None:
    found = assessment([0] * 6, "111111", "000000")
    (broken, *_) = classes_broken(found, 3, torch.tensor([2, 1, 2, 1, 2, 0]))
    assert broken.into == ((2, 3), (1, 2))


def test_ends_found_anew_are_those_that_the_attack_itself_noted() -> None:
    """Three classes; the assessment notes the ends, and an older one without them gets the same."""
    split = split_of(30)
    model = TinyNet(classes=3)
    test = Split(split.images, said(model, split.images.double() / 255), split.indices)
    threat = Linf("0.2")
    found = evaluate(model, test, threat, "pgd:loss=margin", seed=4, check=False)
    noted = found.said(WORST)
    assert noted is not None
    asked: list[int] = []

    def subject(part: Split) -> Subject:
        asked.append(len(part))
        return Subject(model=model, split=part, threat=threat, seed=4)

    ends = torch.tensor(found_ends(found, test, subject))
    is_broken = found.correct & ~found.survivors(WORST)
    assert 0 < int(is_broken.sum()) < 30 and asked == [int(is_broken.sum())]
    assert torch.equal(ends[is_broken], noted[is_broken])
    assert bool((ends[~is_broken] == -1).all())
    assert classes_broken(found, 3, ends) == classes_broken(found, 3, noted)


def test_nothing_is_asked_where_nothing_broke() -> None:
    found = assessment([0, 1], "11", "11")
    subject = linear_subject(count=2)
    assert found_ends(found, subject.split, lambda _: subject) == (-1, -1)
