import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from soar.data import Augmentation, Batch, Split, batches_per_epoch, to_unit, training_batches
from soar.data.batches import augment, draw_moves
from soar.errors import UserError

VARIED = Augmentation(crop_padding=2, flip=True)


def split(n: int = 23) -> Split:
    images = torch.arange(n * 3 * 8 * 8).remainder(253).to(torch.uint8).view(n, 3, 8, 8)
    return Split(images, torch.arange(n) % 10, torch.arange(n) * 7 + 1000)


def batches(**changes: Any) -> list[Batch]:
    settings: dict[str, Any] = {
        "batch_size": 4,
        "seed": 0,
        "epoch": 0,
        "augmentation": VARIED,
        "num_workers": 0,
    }
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
        assert torch.equal(batch.x, data.images[rows])
        assert torch.equal(batch.on().x, to_unit(data.images[rows]))
        assert torch.equal(batch.y, data.labels[rows])
        assert (batch.x.dtype, batch.on().x.dtype) == (torch.uint8, torch.float32)


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


@pytest.mark.parametrize("num_workers", [1, 2, 5])
def test_workers_change_nothing(num_workers: int) -> None:
    assert same(batches(num_workers=num_workers), batches())


@pytest.mark.parametrize("start", [0, 1, 3, 5])
def test_resuming_gives_the_rest_of_the_epoch(start: int) -> None:
    assert same(batches(start=start), batches()[start:])


def test_processes_divide_every_batch() -> None:
    parts = [batches(rank=rank, world_size=2, num_workers=1) for rank in (0, 1)]
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
        split(), batch_size=1, seed=0, epoch=0, augmentation=VARIED, num_workers=2
    )
    next(given)
    assert workers_alive() > 0
    given.close()  # type: ignore[attr-defined]
    assert workers_alive() == 0


def test_an_error_in_a_worker_reaches_the_caller() -> None:
    with pytest.raises(UserError, match="allowed is less than 8"):
        batches(augmentation=Augmentation(crop_padding=9, padding_mode="reflect"), num_workers=2)


@pytest.mark.parametrize("size", [0, -4, 24])
def test_a_batch_size_must_fit_the_examples(size: int) -> None:
    expected = rf"training\.batch_size: got {size}, allowed are 1 to 23, .*--training\.batch_size"
    with pytest.raises(UserError, match=expected):
        training_batches(split(), batch_size=size, seed=0, epoch=0, augmentation=VARIED)


def test_a_batch_size_must_fit_the_processes() -> None:
    with pytest.raises(UserError, match=r"got 4, allowed are multiples of 3, the number of proc"):
        training_batches(split(), batch_size=4, seed=0, epoch=0, augmentation=VARIED, world_size=3)


def slow_reference(
    image: np.ndarray, augmentation: Augmentation, top: int, left: int, mirrored: bool
) -> np.ndarray:
    """Move one image pixel by pixel."""
    _, height, width = image.shape
    out = np.zeros_like(image)
    for row in range(height):
        for column in range(width):
            taken_column = width - 1 - column if mirrored else column
            y, x = row + top - augmentation.crop_padding, taken_column + left - augmentation.crop_padding
            if augmentation.padding_mode == "reflect":
                y = -y if y < 0 else 2 * (height - 1) - y if y >= height else y
                x = -x if x < 0 else 2 * (width - 1) - x if x >= width else x
            if 0 <= y < height and 0 <= x < width:
                out[:, row, column] = image[:, y, x]
    return out


@given(
    st.builds(
        Augmentation,
        crop_padding=st.integers(0, 4),
        padding_mode=st.sampled_from(["zero", "reflect"]),
        flip=st.booleans(),
    ),
    st.integers(1, 3),
    st.integers(5, 8),
    st.integers(5, 8),
    st.integers(0, 2**31),
)
def test_equals_the_slow_reference(
    augmentation: Augmentation, channels: int, height: int, width: int, seed: int
) -> None:
    images = np.random.default_rng(seed).integers(0, 256, (6, channels, height, width), np.uint8)
    moves = draw_moves(augmentation, torch.arange(6), seed=seed, epoch=3)
    found = augment(images.copy(), moves, augmentation)
    for n in range(6):
        top, left, mirrored = moves[n]
        assert (found[n] == slow_reference(images[n], augmentation, top, left, bool(mirrored))).all()


def test_the_default_changes_nothing() -> None:
    images = np.arange(32, dtype=np.uint8).reshape(2, 1, 4, 4)
    moves = draw_moves(Augmentation(), torch.arange(2), seed=0, epoch=0)
    assert (augment(images.copy(), moves, Augmentation()) == images).all()


def test_a_known_crop_and_flip() -> None:
    image = np.array([[[[1, 2], [3, 4]]]], np.uint8)
    moves = np.array([[0, 2, 1]])
    found = augment(image, moves, Augmentation(crop_padding=1, flip=True))
    assert found.tolist() == [[[[0, 0], [0, 2]]]]


def test_moves_belong_to_the_example_not_to_the_batch() -> None:
    augmentation = Augmentation(crop_padding=4, flip=True)
    all_moves = draw_moves(augmentation, torch.arange(100), seed=5, epoch=2)
    some = draw_moves(augmentation, torch.tensor([93, 7]), seed=5, epoch=2)
    assert (some == all_moves[[93, 7]]).all()


@pytest.mark.parametrize(("seed", "epoch"), [(0, 1), (1, 0)])
def test_seed_and_epoch_change_the_moves(seed: int, epoch: int) -> None:
    augmentation = Augmentation(crop_padding=4, flip=True)
    first = draw_moves(augmentation, torch.arange(200), seed=0, epoch=0)
    other = draw_moves(augmentation, torch.arange(200), seed=seed, epoch=epoch)
    assert ((first != other).mean(axis=0) > 0.3).all()


def test_every_place_is_equally_likely() -> None:
    moves = draw_moves(Augmentation(crop_padding=4, flip=True), torch.arange(81_000), seed=0, epoch=0)
    top, left, mirrored = moves.T
    places = np.bincount(top * 9 + left, minlength=81)
    # 1,000 expected at each of 81 places; five standard deviations are 158.
    assert abs(places - 1000).max() < 158
    assert abs(mirrored.mean() - 0.5) < 5 * 0.5 / 81_000**0.5
    assert abs(np.corrcoef(top, mirrored)[0, 1]) < 5 / 81_000**0.5


def test_a_negative_crop_is_refused() -> None:
    with pytest.raises(UserError, match=r"augmentation\.crop_padding: got -1, expected at least 0"):
        Augmentation(crop_padding=-1)


def test_an_unknown_padding_is_refused() -> None:
    with pytest.raises(UserError, match=r"augmentation\.padding_mode: got 'edge', expected zero or reflect"):
        Augmentation(padding_mode="edge")  # type: ignore[arg-type]


def test_a_small_image_cannot_be_mirrored_far() -> None:
    moves = np.array([[0, 0, 0]])
    with pytest.raises(UserError, match=r"augmentation\.crop_padding: got 2, allowed is less than 2 for"):
        augment(np.zeros((1, 1, 2, 3), np.uint8), moves, Augmentation(crop_padding=2, padding_mode="reflect"))
