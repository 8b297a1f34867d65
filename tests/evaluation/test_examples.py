from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

import soar
from soar.data import Split
from soar.errors import UserError
from soar.evaluation.examples import Gathered, gather
from tests.attacks.problems import TinyNet, images, said

X, Y = images(7), torch.tensor([0, 1, 2, 3, 4, 0, 1])


class Endless(IterableDataset[tuple[Tensor, Tensor]]):
    """Examples that come one after the other and have no places."""

    def __iter__(self) -> Any:
        return iter(zip(X, Y, strict=True))


@pytest.mark.parametrize(
    "data",
    [
        (X, Y),
        (X.numpy(), Y.numpy()),
        TensorDataset(X, Y),
        [*zip(X, Y.tolist(), strict=True)],
        DataLoader(TensorDataset(X, Y), batch_size=3),
        DataLoader(Endless(), batch_size=2),
        Endless(),
        Gathered(X, Y, torch.arange(7)),
    ],
    ids=["tensors", "arrays", "set", "list", "loader", "stream loader", "stream", "gathered"],
)
def test_every_kind_of_data_gives_the_same_examples(data: Any) -> None:
    if isinstance(data, list):
        data = DataLoader(data, batch_size=4)  # type: ignore[arg-type]
    before = torch.get_rng_state()
    found = gather(data)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(found.images, X)
    assert torch.equal(found.labels, Y)
    assert found.index.tolist() == list(range(7))


def test_a_split_keeps_its_identities() -> None:
    split = Split((255 * X).byte(), Y, torch.arange(7) + 100)
    assert torch.equal(gather(split).index, split.indices)
    assert gather(split).images.dtype == torch.uint8


def test_evaluations_of_a_loader_and_of_its_tensors_are_the_same() -> None:
    model, threat = TinyNet(), soar.Linf("0.05")
    labels = said(model, X)
    loader = DataLoader(TensorDataset(X, labels), batch_size=2)
    whole, loaded = (soar.evaluate(model, data, threat, "pgd") for data in ((X, labels), loader))
    assert whole.worst_case == loaded.worst_case
    assert torch.equal(whole.attacks[0].robust, loaded.attacks[0].robust)
    first, second = (soar.diagnose(model, data, threat) for data in ((X, labels), loader))
    assert first.evidence == second.evidence


class Broken(Dataset[Any]):
    def __len__(self) -> int:
        return 3

    def __getitem__(self, place: int) -> Any:
        raise KeyError("no file")


@pytest.mark.parametrize(
    "data, message",
    [
        (
            DataLoader(TensorDataset(X, Y), shuffle=True),
            "data: got a loader that shuffles, expected shuffle=False; the random numbers",
        ),
        (Broken(), "data: the Broken fails (KeyError: 'no file')"),
        (TensorDataset(X), "data: got batches of 1 parts, expected (images, labels)"),
        (TensorDataset(X, Y, Y), "data: got batches of 3 parts, expected (images, labels)"),
        (DataLoader([{"x": 1}]), "data: got batches of dict, expected (images, labels)"),  # type: ignore[arg-type]
        ("cifar10", "data: got str, expected a split such as"),
        ((X, [1, 2]), "data: got (Tensor, list), expected a split such as"),
    ],
)
def test_what_cannot_be_examples_is_refused(data: Any, message: str) -> None:
    with pytest.raises(UserError) as told:
        gather(data)
    assert str(told.value).startswith(message)


def test_an_empty_set_has_no_images() -> None:
    with pytest.raises(UserError, match="data: got no images"):
        soar.evaluate(TinyNet(), TensorDataset(X[:0], Y[:0]), soar.Linf("0.05"))
