import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from soar.data import Augmentation
from soar.data.augmentation import Moves, augment, draw_moves
from soar.errors import UserError


def slow_reference(
    image: np.ndarray, augmentation: Augmentation, top: int, left: int, mirrored: bool
) -> np.ndarray:
    """Move one image pixel by pixel."""
    _, height, width = image.shape
    out = np.zeros_like(image)
    for row in range(height):
        for column in range(width):
            taken_column = width - 1 - column if mirrored else column
            y, x = row + top - augmentation.crop, taken_column + left - augmentation.crop
            if augmentation.pad == "reflect":
                y = -y if y < 0 else 2 * (height - 1) - y if y >= height else y
                x = -x if x < 0 else 2 * (width - 1) - x if x >= width else x
            if 0 <= y < height and 0 <= x < width:
                out[:, row, column] = image[:, y, x]
    return out


@given(
    st.builds(
        Augmentation,
        crop=st.integers(0, 4),
        pad=st.sampled_from(["zero", "reflect"]),
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
        place = int(moves.top[n]), int(moves.left[n]), bool(moves.mirrored[n])
        assert (found[n] == slow_reference(images[n], augmentation, *place)).all()


def test_the_default_changes_nothing() -> None:
    images = np.arange(32, dtype=np.uint8).reshape(2, 1, 4, 4)
    moves = draw_moves(Augmentation(), torch.arange(2), seed=0, epoch=0)
    assert (augment(images.copy(), moves, Augmentation()) == images).all()


def test_a_known_crop_and_flip() -> None:
    image = np.array([[[[1, 2], [3, 4]]]], np.uint8)
    moves = Moves(np.array([0]), np.array([2]), np.array([True]))
    found = augment(image, moves, Augmentation(crop=1, flip=True))
    assert found.tolist() == [[[[0, 0], [0, 2]]]]


def test_moves_belong_to_the_example_not_to_the_batch() -> None:
    augmentation = Augmentation(crop=4, flip=True)
    all_moves = draw_moves(augmentation, torch.arange(100), seed=5, epoch=2)
    some = draw_moves(augmentation, torch.tensor([93, 7]), seed=5, epoch=2)
    assert some.top.tolist() == [all_moves.top[93], all_moves.top[7]]
    assert some.left.tolist() == [all_moves.left[93], all_moves.left[7]]
    assert some.mirrored.tolist() == [all_moves.mirrored[93], all_moves.mirrored[7]]


@pytest.mark.parametrize(("seed", "epoch"), [(0, 1), (1, 0)])
def test_seed_and_epoch_change_the_moves(seed: int, epoch: int) -> None:
    augmentation = Augmentation(crop=4, flip=True)
    first = draw_moves(augmentation, torch.arange(200), seed=0, epoch=0)
    other = draw_moves(augmentation, torch.arange(200), seed=seed, epoch=epoch)
    for name in ("top", "left", "mirrored"):
        assert (getattr(first, name) != getattr(other, name)).mean() > 0.3


def test_every_place_is_equally_likely() -> None:
    moves = draw_moves(Augmentation(crop=4, flip=True), torch.arange(81_000), seed=0, epoch=0)
    places = np.bincount(moves.top * 9 + moves.left, minlength=81)
    # 1,000 expected at each of 81 places; five standard deviations are 158.
    assert abs(places - 1000).max() < 158
    assert abs(moves.mirrored.mean() - 0.5) < 5 * 0.5 / 81_000**0.5
    assert abs(np.corrcoef(moves.top, moves.mirrored)[0, 1]) < 5 / 81_000**0.5


def test_a_negative_crop_is_refused() -> None:
    with pytest.raises(UserError, match=r"augmentation\.crop: got -1, allowed are 0 and more"):
        Augmentation(crop=-1)


def test_an_unknown_padding_is_refused() -> None:
    with pytest.raises(UserError, match=r"augmentation\.pad: got 'edge', allowed are zero, reflect"):
        Augmentation(pad="edge")  # type: ignore[arg-type]


def test_a_small_image_cannot_be_mirrored_far() -> None:
    moves = Moves(np.array([0]), np.array([0]), np.array([False]))
    with pytest.raises(UserError, match=r"augmentation\.crop: got 2, allowed is less than 2 for"):
        augment(np.zeros((1, 1, 2, 3), np.uint8), moves, Augmentation(crop=2, pad="reflect"))
