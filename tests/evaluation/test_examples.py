from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    Sampler,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
)

import soar
from soar.data import Split
from soar.errors import UserError
from soar.evaluation.examples import LabeledImages, gather
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
        LabeledImages(X, Y, torch.arange(7)),
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


class Everything(Sampler[int]):
    """Never ends."""

    def __iter__(self) -> Iterator[int]:
        return itertools.cycle(range(7))


class Wandering(Sampler[list[int]]):
    """Begins where it left off."""

    def __init__(self) -> None:
        self.first = 0

    def __iter__(self) -> Iterator[list[int]]:
        self.first += 1
        return iter([[(self.first + k) % 7 for k in range(7)]])


DATA = TensorDataset(X, Y)


@pytest.mark.parametrize(
    "loader, name",
    [
        (DataLoader(DATA, sampler=SubsetRandomSampler([4, 2, 0])), "SubsetRandomSampler draws another order"),
        (DataLoader(DATA, sampler=SubsetRandomSampler([4, 2])), "SubsetRandomSampler draws another order"),
        (
            DataLoader(DATA, sampler=SubsetRandomSampler([4, 2, 0], torch.Generator().manual_seed(1))),
            "SubsetRandomSampler draws another order",
        ),
        (
            DataLoader(DATA, sampler=WeightedRandomSampler([1.0] * 7, 7)),
            "WeightedRandomSampler draws another",
        ),
        (
            DataLoader(DATA, batch_sampler=BatchSampler(RandomSampler(DATA), 2, drop_last=False)),
            "RandomSampler draws another order each time",
        ),
        (DataLoader(DATA, batch_sampler=Wandering()), "Wandering draws another order each time"),
        (
            DataLoader(DATA, sampler=Everything()),
            "Everything goes on after 1,070 draws, expected one that ends",
        ),
        (DataLoader(DATA, sampler=Everything(), batch_size=None), "Everything goes on after 1,070 draws"),
    ],
)
def test_a_loader_without_one_order_is_refused(loader: DataLoader[Any], name: str) -> None:
    with pytest.raises(UserError) as told:
        gather(loader)
    assert str(told.value).startswith(f"data: got a loader whose {name}")


def test_an_order_that_is_always_the_same_is_taken() -> None:
    order = [4, 4, 0, 2]
    found = gather(DataLoader(DATA, sampler=order, batch_size=3))
    assert torch.equal(found.images, X[order]) and torch.equal(found.labels, Y[order])
    own = DataLoader(DATA, batch_sampler=[[1, 0], [6]])
    assert torch.equal(gather(own).images, X[[1, 0, 6]])


class Noisy(Dataset[Any]):
    """Images of the three global generators."""

    def __len__(self) -> int:
        return 4

    def __getitem__(self, place: int) -> Any:
        numbers = [torch.rand(()).item(), np.random.rand(), random.random()]
        return torch.tensor(numbers).reshape(1, 1, 3), place


class NoisyStream(IterableDataset[Any]):
    def __iter__(self) -> Iterator[Any]:
        return (Noisy()[place] for place in range(4))


def seed_everything(seed: int) -> None:
    torch.manual_seed(seed)
    np.random.seed(seed)
    random.seed(seed)


@pytest.mark.parametrize(
    "data",
    [
        Noisy(),
        NoisyStream(),
        DataLoader(Noisy(), batch_size=3, generator=torch.Generator().manual_seed(1)),
        DataLoader(Noisy(), batch_size=3, num_workers=1, generator=torch.Generator().manual_seed(1)),
    ],
    ids=["set", "stream", "loader", "worker"],
)
def test_random_transforms_give_the_same_pixels_at_every_call(data: Any) -> None:
    with torch.random.fork_rng():
        seed_everything(1)
        first = gather(data).images
        seed_everything(2)
        before = torch.get_rng_state(), np.random.get_state()[1].tolist(), random.getstate()  # type: ignore[index]
        second = gather(data).images
        after = torch.get_rng_state(), np.random.get_state()[1].tolist(), random.getstate()  # type: ignore[index]
    assert torch.equal(first, second) and len(first.unique()) == first.numel()
    assert torch.equal(before[0], after[0]) and before[1:] == after[1:], "the generators are put back"


def test_results_do_not_depend_on_global_generators() -> None:
    found = []
    for seed in (1, 2):
        with torch.random.fork_rng():
            seed_everything(seed)
            model = nn.Sequential(nn.Flatten(), nn.Linear(3, 4))
            model.load_state_dict({"1.weight": torch.eye(4, 3), "1.bias": torch.zeros(4)})
            found.append(soar.evaluate(model, Noisy(), soar.Linf("0.1"), "pgd:steps=3", check=False))
    assert torch.equal(found[0].correct, found[1].correct)
    assert torch.equal(found[0].attacks[0].robust, found[1].attacks[0].robust)


class Ragged(Dataset[Any]):
    def __len__(self) -> int:
        return 2

    def __getitem__(self, place: int) -> Any:
        return torch.zeros(1, 2, 2 + place), 0


def test_batches_that_do_not_fit_together_are_refused() -> None:
    with pytest.raises(
        UserError, match=r"^images: got batches of shapes \(1, 2, 2\) and \(1, 2, 3\), expected"
    ):
        gather(DataLoader(Ragged(), batch_size=1))
    with pytest.raises(UserError, match=r"^images: got an array of object, expected numbers"):
        gather((np.array([None, "x"], dtype=object), np.array([0, 1])))
