import sys
from pathlib import Path

import numpy as np
import pytest

from soar.data import svhn
from soar.errors import UserError

scipy_io = pytest.importorskip("scipy.io")
PIXELS = np.random.default_rng(0).integers(0, 256, (32, 32, 3, 4), dtype=np.uint8)
LABELS = np.array([[10], [1], [9], [10]], np.uint8)


def write(folder: Path, **test: object) -> None:
    scipy_io.savemat(folder / "train_32x32.mat", {"X": PIXELS, "y": LABELS})
    scipy_io.savemat(folder / "test_32x32.mat", test or {"X": PIXELS[..., :2], "y": LABELS[:2]})


def test_label_ten_is_the_digit_zero(tmp_path: Path) -> None:
    write(tmp_path)
    source = svhn.read(tmp_path)
    assert source.train.labels.tolist() == [0, 1, 9, 0]
    assert source.classes[0] == "0"
    assert len(source.test) == 2


def test_pixels_are_brought_to_channel_row_column(tmp_path: Path) -> None:
    write(tmp_path)
    images = svhn.read(tmp_path).train.images
    assert images.shape == (4, 3, 32, 32)
    assert images[3, 2, 5, 30] == PIXELS[5, 30, 2, 3]
    assert images.is_contiguous()


@pytest.mark.parametrize(
    ("held", "message"),
    [
        ({"X": PIXELS}, r"test_32x32\.mat: variable 'y' is missing, expected 'X' and 'y'"),
        ({"X": PIXELS[:16], "y": LABELS}, r"X is uint8 of shape \(16, 32, 3, 4\), expected"),
        ({"X": PIXELS.astype(float), "y": LABELS}, r"X is float64 of shape"),
        ({"X": PIXELS, "y": LABELS + 1}, r"got labels from 0 to 11, allowed are 0 to 9"),
        ({"X": PIXELS, "y": LABELS[:3]}, r"got 4 images but 3 labels"),
    ],
)
def test_a_malformed_file_is_refused(tmp_path: Path, held: dict[str, object], message: str) -> None:
    write(tmp_path, **held)
    with pytest.raises(UserError, match=message):
        svhn.read(tmp_path)


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    write(tmp_path)
    path = tmp_path / "test_32x32.mat"
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(UserError, match=r"not a readable MATLAB file .*soar data verify svhn"):
        svhn.read(tmp_path)


def test_without_scipy_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path)
    monkeypatch.setitem(sys.modules, "scipy.io", None)
    with pytest.raises(UserError, match=r"scipy.* is not installed; run `pip install 'soar-robust\[svhn\]"):
        svhn.read(tmp_path)
