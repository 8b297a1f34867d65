from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from soar.data import Augmentation, Batch, Extra, Split, batches_per_epoch, training_batches
from soar.data.sources import Pool, extra_rows, interleaved
from soar.errors import UserError

VARIED = Augmentation(crop_padding=2, flip=True, cutmix=0.5, erasing=0.5)


def split(n: int, first: int) -> Split:
    images = (torch.arange(n * 3 * 8 * 8) + first).remainder(253).to(torch.uint8).view(n, 3, 8, 8)
    return Split(images, torch.arange(n) % 10, torch.arange(n) + first)


OWN, OTHER = split(23, 0), split(50, 100)


def batches(**changes: Any) -> list[Batch]:
    settings: dict[str, Any] = {"batch_size": 10, "seed": 0, "epoch": 0, "num_workers": 0}
    settings |= {"augmentation": VARIED, "extra": Extra(OTHER, 0.7)}
    return list(training_batches(OWN, **(settings | changes)))


def same(one: list[Batch], two: list[Batch]) -> bool:
    return len(one) == len(two) and all(
        torch.equal(left, right)
        for first, second in zip(one, two, strict=True)
        for left, right in zip(first, second, strict=True)
    )


def test_every_batch_has_its_share_and_an_epoch_counts_the_first_source() -> None:
    found = batches()
    # 3 of 10 are of the first source, so 23 of them last for 7 batches.
    assert batches_per_epoch(OWN, 10, Extra(OTHER, 0.7)) == len(found) == 7
    assert [int((batch.index >= 100).sum()) for batch in found] == [7] * 7
    own = torch.cat([batch.index[batch.index < 100] for batch in found])
    assert len(own) == len(own.unique()) == 21


def test_images_and_labels_are_those_of_their_index() -> None:
    for batch in batches(augmentation=Augmentation()):
        for x, y, index in zip(*batch, strict=True):
            source, row = (OTHER, int(index) - 100) if index >= 100 else (OWN, int(index))
            assert torch.equal(x, source.images[row]) and y == source.labels[row]


def test_all_of_the_second_source_is_seen_before_any_is_seen_again() -> None:
    extra = Extra(OTHER, 0.7)
    rows = torch.cat([extra_rows(extra, 7, 10, seed=3, epoch=epoch).reshape(-1) for epoch in range(5)])
    # 49 an epoch of 50: passes and epochs do not begin together.
    for begin in range(0, 200, 50):
        assert sorted(rows[begin : begin + 50].tolist()) == list(range(50))
    assert not torch.equal(rows[:50], rows[50:100])


def test_a_small_second_source_is_repeated() -> None:
    rows = extra_rows(Extra(split(3, 100), 0.5), 2, 8, seed=0, epoch=0)
    assert rows.shape == (2, 4) and sorted(rows.unique(return_counts=True)[1].tolist()) == [2, 3, 3]


def test_a_batch_does_not_depend_on_threads_the_start_or_the_processes() -> None:
    whole = batches(epoch=4)
    assert same(whole, batches(epoch=4, num_workers=3))
    assert same(whole[3:], batches(epoch=4, start=3))
    halves = [batches(epoch=4, rank=rank, world_size=2) for rank in range(2)]
    joined = [Batch(*map(torch.cat, zip(*parts, strict=True))) for parts in zip(*halves, strict=True)]
    assert same(whole, joined)
    assert not same(whole, batches(epoch=5)) and not same(whole, batches(epoch=4, seed=1))


def test_every_part_of_a_batch_has_both() -> None:
    mixed = interleaved(torch.zeros(1, 30, dtype=torch.int64), torch.ones(1, 70, dtype=torch.int64))
    for part in mixed[0].split(10):
        assert int(part.sum()) == 7


def test_a_pool_reads_two_sources_as_one() -> None:
    pool, rows = Pool([OWN, OTHER]), torch.tensor([0, 22, 23, 72])
    both = torch.cat([OWN.images, OTHER.images])
    assert np.array_equal(pool.images(rows), both[rows].numpy())
    ends = pool.partners(rows, np.array([0.999999, 0.0, 0.0, 1.0], np.float32))
    assert ends.tolist() == [22, 0, 23, 72]


@pytest.mark.parametrize(("share", "size", "message"), [
    (0.01, 10, "which is 0 of 10 images in a batch"),
    (0.99, 10, "which is 10 of 10 images"),
    (1.0, 10, "expected a share between 0 and 1"),
])  # fmt: skip
def test_a_share_that_leaves_one_source_out_is_refused(share: float, size: int, message: str) -> None:
    with pytest.raises(UserError, match=message):
        batches(extra=Extra(OTHER, share), batch_size=size)
