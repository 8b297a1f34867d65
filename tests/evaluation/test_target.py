from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from soar.attacks import PGD, run
from soar.errors import UserError
from soar.evaluation.target import Target
from soar.threat import L2, Linf
from tests.evaluation.checks.made import Linear, images

X = images(20)
Y = Linear()(X).argmax(dim=1)


def target(**options: object) -> Target:
    return Target(**{"model": Linear(), "data": (X, Y), "threat": Linf("0.05"), **options})  # type: ignore[arg-type]


def test_images_are_given_as_the_model_takes_them() -> None:
    made = target(model=Linear().double(), data=((255 * X).to(torch.uint8), Y), batch_size=8)
    assert made.images.dtype == torch.uint8 and made.x[:].dtype == torch.float64
    assert torch.equal(made.x[:], made.images.double() / 255)
    parts = [*made.batches()]
    assert [len(index) for _, _, index in parts] == [8, 8, 4]
    assert torch.equal(torch.cat([x for x, _, _ in parts]), made.x[:])


def test_a_subset_keeps_the_identity_of_each_example() -> None:
    rows = torch.tensor([7, 3])
    some = target().subset(rows)
    assert torch.equal(some.index, rows) and torch.equal(some.labels, Y[rows]) and len(some) == 2
    flags = torch.arange(20) % 2 == 0
    assert torch.equal(target().subset(flags).index, torch.arange(0, 20, 2))
    assert torch.equal(some.subset(slice(1, None)).index, rows[1:])
    assert len(target().subset(slice(0))) == 0


def test_data_are_read_once() -> None:
    class Once(TensorDataset):
        reads = 0

        def __getitem__(self, place: int) -> tuple[torch.Tensor, ...]:
            self.reads += 1
            return X[place], Y[place]

    data = Once(X, Y)
    made = target(data=DataLoader(data, batch_size=6))
    other = replace(made, threat=L2(1))
    assert data.reads == 20 and other.stored is made.stored


def test_predictions_are_those_of_the_model_in_eval_mode() -> None:
    model = nn.Sequential(nn.Dropout(), Linear())
    labels = torch.where(torch.arange(20) < 5, (Y + 1) % 3, Y)
    made = target(model=model, data=(X, labels))
    assert torch.equal(made.predictions, Y) and model.training
    assert torch.equal(made.correct, torch.arange(20) >= 5)
    assert torch.equal(made.predict(X[:3]), made.logits[:3])


def test_an_attack_on_some_rows_is_that_of_the_engine() -> None:
    made, rows, attack = target(seed=3), torch.tensor([4, 9, 11]), PGD(steps=3)
    found = made.attack(attack, rows=rows, threat=Linf("0.1"))
    expected = run(Linear(), attack, Linf("0.1"), X[rows], Y[rows], index=rows, seed=3)
    assert torch.equal(found.adversarial, expected.adversarial)
    assert torch.equal(found.robust, expected.robust)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"model": 3}, "model: got a int"),
        ({"threat": "0.1"}, "threat: got '0.1'"),
        ({"data": X}, "data: got Tensor"),
        ({"data": (X[:0], Y[:0])}, "data: got no images"),
        ({"batch_size": 0}, "batch_size: got 0"),
        ({"seed": "a"}, "seed: got 'a'"),
        ({"name": 1}, "name: got 1"),
        ({"class_names": "abc"}, "class_names: got a str"),
        ({"class_names": ("a",)}, "class_names: got 1 names, but labels go up to 2"),
    ],
)
def test_what_cannot_be_a_target_is_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        target(**options)
