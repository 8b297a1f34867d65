import threading
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from soar.data import Augmentation, Batch, Split, batches_per_epoch, to_unit, training_batches
from soar.errors import UserError

VARIED = Augmentation(crop=2, flip=True)


def split(n: int = 23) -> Split:
    images = torch.arange(n * 3 * 8 * 8).remainder(253).to(torch.uint8).view(n, 3, 8, 8)
    return Split(images, torch.arange(n) % 10, torch.arange(n) * 7 + 1000)


def batches(**changes: Any) -> list[Batch]:
    settings: dict[str, Any] = {"batch_size": 4, "seed": 0, "epoch": 0, "augmentation": VARIED, "workers": 0}
    return list(training_batches(split(), **(settings | changes)))


def same(one: list[Batch], two: list[Batch]) -> bool:
    return len(one) == len(two) and all(
        torch.equal(left, right)
        for first, second in zip(one, two, strict=True)
        for left, right in zip(first, second, strict=True)
    )


def test_without_augmentation_images_are_the_originals() -> None:
    data = split()
    for batch in batches(augmentation=Augmentation()):
        rows = (batch.index - 1000) // 7
        assert torch.equal(batch.x, to_unit(data.images[rows]))
        assert torch.equal(batch.y, data.labels[rows])
        assert batch.x.dtype == torch.float32


def test_every_example_comes_once_and_the_rest_is_left_out() -> None:
    seen = torch.cat([batch.index for batch in batches()])
    assert len(seen) == 20
    assert len(seen.unique()) == 20
    assert set(seen.tolist()) < set(split().indices.tolist())
    assert batches_per_epoch(split(), 4) == 5


def test_the_order_is_a_function_of_seed_and_epoch() -> None:
    def order(**changes: Any) -> list[int]:
        return torch.cat([batch.index for batch in batches(**changes)]).tolist()

    assert order() == order()
    assert len({tuple(order(seed=seed, epoch=epoch)) for seed in (0, 1) for epoch in (0, 1)}) == 4


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_workers_change_nothing(workers: int) -> None:
    assert same(batches(workers=workers), batches())


@pytest.mark.parametrize("start", [0, 1, 3, 5])
def test_resuming_gives_the_rest_of_the_epoch(start: int) -> None:
    assert same(batches(start=start), batches()[start:])


def test_processes_divide_every_batch() -> None:
    parts = [batches(rank=rank, world_size=2, workers=1) for rank in (0, 1)]
    joined = [
        Batch(*(torch.cat(tensors) for tensors in zip(left, right, strict=True)))
        for left, right in zip(*parts, strict=True)
    ]
    assert same(joined, batches())


def test_an_example_looks_the_same_in_every_batch_size() -> None:
    def by_index(size: int) -> dict[int, torch.Tensor]:
        return {
            int(index): x
            for batch in batches(batch_size=size)
            for index, x in zip(batch.index, batch.x, strict=True)
        }

    small, large = by_index(1), by_index(5)
    assert all(torch.equal(small[index], image) for index, image in large.items())


def test_images_vary_from_epoch_to_epoch() -> None:
    def image(epoch: int) -> torch.Tensor:
        return next(
            b.x[i]
            for b in batches(epoch=epoch, batch_size=1)
            for i in range(len(b.x))
            if int(b.index[i]) == 1000
        )

    assert not all(torch.equal(image(0), image(epoch)) for epoch in range(1, 5))


def test_the_source_is_never_overwritten() -> None:
    data = split()
    before = data.images.clone()
    for batch in training_batches(data, batch_size=4, seed=0, epoch=0, augmentation=Augmentation(flip=True)):
        batch.x.zero_()
    assert torch.equal(data.images, before)


def workers_alive() -> int:
    return sum(thread.name.startswith("soar-batches") for thread in threading.enumerate())


def test_leaving_early_ends_the_workers() -> None:
    given: Iterator[Batch] = training_batches(
        split(), batch_size=1, seed=0, epoch=0, augmentation=VARIED, workers=2
    )
    next(given)
    assert workers_alive() > 0
    given.close()  # type: ignore[attr-defined]
    assert workers_alive() == 0


def test_an_error_in_a_worker_reaches_the_caller() -> None:
    with pytest.raises(UserError, match="allowed is less than 8"):
        batches(augmentation=Augmentation(crop=9, pad="reflect"), workers=2)


@pytest.mark.parametrize("size", [0, -4, 24])
def test_a_batch_size_must_fit_the_examples(size: int) -> None:
    expected = rf"training\.batch_size: got {size}, allowed are 1 to 23, .*--training\.batch_size"
    with pytest.raises(UserError, match=expected):
        training_batches(split(), batch_size=size, seed=0, epoch=0, augmentation=VARIED)


def test_a_batch_size_must_fit_the_processes() -> None:
    with pytest.raises(UserError, match=r"got 4, allowed are multiples of 3, the number of proc"):
        training_batches(split(), batch_size=4, seed=0, epoch=0, augmentation=VARIED, world_size=3)
