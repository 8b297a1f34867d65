from pathlib import Path
from typing import Any

import numpy as np
import pytest

from soar.data import npz
from soar.errors import UserError

RANDOM = np.random.default_rng(0)
PIXELS = RANDOM.integers(0, 256, (6, 5, 4, 3), dtype=np.uint8)
ARRAYS: dict[str, Any] = {
    "x_train": PIXELS[:4],
    "y_train": np.array([0, 1, 2, 1]),
    "x_test": PIXELS[4:],
    "y_test": np.array([[2], [0]], np.uint8),
}


def write(folder: Path, **changes: Any) -> Path:
    path = folder / "file.npz"
    arrays = {name: array for name, array in (ARRAYS | changes).items() if array is not None}
    np.savez(path, **arrays)
    return path


def test_channels_last(tmp_path: Path) -> None:
    source = npz.read(write(tmp_path))
    assert source.train.images.shape == (4, 3, 5, 4)
    assert source.train.images[3, 2, 1, 0] == PIXELS[3, 1, 0, 2]
    assert source.classes == ("0", "1", "2")
    assert source.test.labels.tolist() == [2, 0]


def test_channels_first_give_the_same(tmp_path: Path) -> None:
    first = PIXELS.transpose(0, 3, 1, 2)
    source = npz.read(write(tmp_path, x_train=first[:4], x_test=first[4:]))
    assert source.train.images.tolist() == first[:4].tolist()


def test_gray_images_need_no_channel(tmp_path: Path) -> None:
    source = npz.read(write(tmp_path, x_train=PIXELS[:4, ..., 0], x_test=PIXELS[4:, ..., 0]))
    assert source.test.images.shape == (2, 1, 5, 4)


def test_classes_may_be_named(tmp_path: Path) -> None:
    source = npz.read(write(tmp_path, classes=np.array(["cat", "dog", "owl", "yak"])))
    assert source.classes == ("cat", "dog", "owl", "yak")


def test_training_arrays_may_be_left_out(tmp_path: Path) -> None:
    source = npz.read(write(tmp_path, x_train=None, y_train=None))
    assert source.train.images.shape == (0, 3, 5, 4)
    assert len(source.test) == 2


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"y_train": None}, r"array 'y_train' is missing; it holds x_test, x_train, y_test, exp"),
        ({"x_test": None}, r"array 'x_test' is missing"),
        ({"x_train": PIXELS[:4] / 255}, r"x_train: got float64, expected uint8 with pixels"),
        ({"x_train": PIXELS[:4, :, :, :2]}, r"x_train: got shape \(4, 5, 4, 2\), expected \(N, he"),
        ({"x_train": PIXELS[0, :, 0]}, r"x_train: got shape \(5, 3\), expected"),
        ({"x_train": PIXELS[:0]}, r"x_train: got shape \(0, 5, 4, 3\), expected"),
        ({"x_test": PIXELS[4:, :4]}, r"x_train has images of shape \(3, 5, 4\), x_test of \(3, 4"),
        ({"y_train": np.array([0.0, 1, 2, 1])}, r"y_train: got float64 of shape \(4,\), expected N"),
        ({"y_train": np.eye(4, dtype=int)}, r"y_train: got int64 of shape \(4, 4\), expected N"),
        ({"y_train": np.array([0, 1, 2])}, r"y_train: got 4 images but 3 labels"),
        ({"y_test": np.array([-1, 0])}, r"y_test: got labels from -1 to 0, allowed are 0 to 2"),
        ({"classes": np.array(["a", "b"])}, r"y_train: got labels from 0 to 2, allowed are 0 to 1"),
    ],
)
def test_malformed_arrays_are_refused(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        npz.read(write(tmp_path, **changes))


def test_pickles_are_never_loaded(tmp_path: Path) -> None:
    path = write(tmp_path, y_test=np.array([object(), object()]))
    with pytest.raises(UserError, match=r"file\.npz: not an \.npz archive of plain arrays \(Object"):
        npz.read(path)


@pytest.mark.parametrize("contents", [b"", b"text", b"PK\x03\x04 cut short"])
def test_another_kind_of_file_is_refused(tmp_path: Path, contents: bytes) -> None:
    path = tmp_path / "file.npz"
    path.write_bytes(contents)
    with pytest.raises(UserError, match=r"file\.npz: not an \.npz archive"):
        npz.read(path)


def test_a_damaged_array_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path)
    contents = path.read_bytes()
    place = contents.index(PIXELS[:4].tobytes())
    path.write_bytes(contents[:place] + b"!!!!" + contents[place + 4 :])
    with pytest.raises(UserError, match=r"not an \.npz archive of plain arrays \(Bad CRC"):
        npz.read(path)


def test_a_single_array_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "file.npy", PIXELS)
    with pytest.raises(UserError, match=r"a single array, expected an \.npz archive of four"):
        npz.read(tmp_path / "file.npy")
