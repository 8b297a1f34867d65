from __future__ import annotations

import torch
from torch import Tensor

from soar.attacks.attack import Examples
from soar.attacks.record import Record

INF = torch.inf


def examples(rows: list[int], entries: list[int] | None = None, logits: Tensor | None = None) -> Examples:
    """Black images of one pixel, all of class 0."""
    row = torch.tensor(rows)
    labels = torch.zeros_like(row)
    return Examples(
        x=torch.zeros(len(rows), 1, 1, 1),
        labels=labels,
        goal=labels - 1,
        row=row,
        index=row,
        entry=labels if entries is None else torch.tensor(entries),
        logits=logits,
        seed=0,
    )


def keep(
    record: Record,
    rows: list[int],
    entries: list[int],
    values: list[float],
    loss: list[float],
    predicted: list[int],
) -> None:
    """Show a batch to the record: its points by their value, and the class that is predicted for each."""
    answers = torch.tensor(predicted)
    record.keep(
        examples(rows, entries),
        torch.tensor(values).reshape(-1, 1, 1, 1),
        torch.nn.functional.one_hot(answers, 3).float(),
        torch.tensor(loss),
        answers != 0,
    )


def kept(record: Record) -> list[float]:
    return [round(value, 4) for value in record.outcomes.adversarial.flatten().tolist()]


def test_an_image_that_is_wrong_already_is_not_robust_and_keeps_its_prediction() -> None:
    record = Record(examples([0, 1], logits=torch.tensor([[2.0, 1.0, 0.0], [0.0, 1.0, 2.0]])), asked=1)
    assert record.outcomes.correct.tolist() == record.outcomes.robust.tolist() == [True, False]
    assert record.outcomes.predictions.tolist() == [0, 2]
    assert record.outcomes.forward.tolist() == [1, 1]
    assert record.outcomes.backward.tolist() == [0, 0]


def test_of_points_that_fail_the_one_of_highest_loss_is_kept() -> None:
    record = Record(examples([0, 1]), asked=0)
    keep(record, [0, 1], [0, 0], [0.1, 0.2], [1.0, 5.0], predicted=[0, 0])
    keep(record, [0, 1], [0, 0], [0.3, 0.4], [2.0, 4.0], predicted=[0, 0])
    assert kept(record) == [0.3, 0.2]
    assert record.outcomes.robust.tolist() == [True, True]


def test_of_two_entries_in_one_batch_the_higher_loss_counts() -> None:
    record = Record(examples([0]), asked=0)
    keep(record, [0, 0], [0, 1], [0.1, 0.2], [3.0, 2.0], predicted=[0, 0])
    assert kept(record) == [0.1]


def test_a_point_outside_of_the_ball_is_never_kept() -> None:
    record = Record(examples([0]), asked=0)
    keep(record, [0], [0], [0.9], [-INF], predicted=[0])
    assert kept(record) == [0.0]


def test_the_lowest_entry_that_succeeds_wins_whenever_it_comes() -> None:
    record = Record(examples([0]), asked=0)
    keep(record, [0], [2], [0.2], [1.0], predicted=[2])
    keep(record, [0], [3], [0.3], [9.0], predicted=[1])
    assert (kept(record), record.outcomes.predictions.tolist()) == ([0.2], [2])
    keep(record, [0, 0], [1, 0], [0.1, 0.05], [0.0, 9.0], predicted=[1, 0])
    assert (kept(record), record.outcomes.predictions.tolist()) == ([0.1], [1])
    assert record.outcomes.robust.tolist() == [False]


def test_passes_of_all_entries_of_an_example_are_added_up() -> None:
    record = Record(examples([0, 1]), asked=1)
    rows = torch.tensor([1, 0, 1])
    record.spend(rows, torch.tensor([1, 1, 1]), torch.tensor([0, 1, 1]))
    assert record.outcomes.forward.tolist() == [2, 3]
    assert record.outcomes.backward.tolist() == [1, 1]
