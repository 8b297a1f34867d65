import gzip
import hashlib
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from soar.data import published
from soar.data.dataset import Dataset
from soar.data.files import BUNDLED_FILES, BUNDLED_FOLDER, FETCHABLE, File, state
from soar.errors import UserError
from tests.data.test_pickled import dumped

PIXELS = np.random.default_rng(0).integers(0, 256, (32, 32, 3, 4), dtype=np.uint8)
DIGITS = np.array([[10], [1], [9], [10]], np.uint8)
READERS: dict[str, Callable[[Path], Dataset]] = {
    "cifar10": published.cifar10,
    "cifar100": published.cifar100,
    "fashion-mnist": published.fashion_mnist,
    "svhn": published.svhn,
}


def described(name: str, contents: bytes) -> File:
    return File(name, len(contents), hashlib.md5(contents).hexdigest())


def idx(array: np.ndarray) -> bytes:
    header = bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    return header + array.astype(np.uint8).tobytes()


def write_cifar10(folder: Path) -> None:
    """Write small files of the official layout; every pixel tells its file, image, place."""
    for number, file in enumerate(FETCHABLE["cifar10"]):
        contents = bytearray()
        for record in range(2):
            contents.append((number * 2 + record) % 10)
            contents += ((np.arange(3072) * (number + 1) + record) % 256).astype(np.uint8).tobytes()
        (folder / file.name).write_bytes(bytes(contents))


def write_fashion_mnist(folder: Path) -> None:
    pixels = np.arange(3 * 28 * 28).reshape(3, 28, 28) % 251
    for part, count in (("train", 3), ("t10k", 2)):
        (folder / f"{part}-images-idx3-ubyte").write_bytes(idx(pixels[:count]))
        (folder / f"{part}-labels-idx1-ubyte").write_bytes(idx(np.arange(count) + 7))


def write_cifar100(folder: Path) -> None:
    """Write pickles as Python 2 does, of the official layout."""
    pixels = (np.arange(3 * 3072) % 251).astype(np.uint8).reshape(3, 3072)
    for part, count in (("train", 3), ("test", 2)):
        fine = [99 - place for place in range(count)]
        batch = {"filenames": ["a.png"] * count, "batch_label": part, "fine_labels": fine}
        (folder / part).write_bytes(dumped(batch | {"coarse_labels": [0] * count, "data": pixels[:count]}))
    names = [f"class {place}" for place in range(100)]
    (folder / "meta").write_bytes(dumped({"fine_label_names": names, "coarse_label_names": ["all"]}))


def write_svhn(folder: Path) -> None:
    savemat = pytest.importorskip("scipy.io").savemat
    savemat(folder / "train_32x32.mat", {"X": PIXELS, "y": DIGITS})
    savemat(folder / "test_32x32.mat", {"X": PIXELS[..., :2], "y": DIGITS[:2]})


WRITERS = {
    "cifar10": write_cifar10,
    "cifar100": write_cifar100,
    "fashion-mnist": write_fashion_mnist,
    "svhn": write_svhn,
}


def publish(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write a small dataset, and let its files count as the published ones."""
    WRITERS[name](folder)
    names = [file.name for file in FETCHABLE[name]]
    files = tuple(described(one, (folder / one).read_bytes()) for one in names)
    monkeypatch.setitem(FETCHABLE, name, files)


def test_records_are_label_then_channel_row_column(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    publish("cifar10", tmp_path, monkeypatch)
    source = published.cifar10(tmp_path)
    assert source.train.images.shape == (10, 3, 32, 32)
    assert source.train.labels.tolist() == list(range(10))
    assert source.test.labels.tolist() == [0, 1]
    image, channel, row, column = 5, 2, 7, 30
    place = channel * 1024 + row * 32 + column
    assert source.train.images[image, channel, row, column] == (place * 3 + 1) % 256
    assert source.train.indices.tolist() == list(range(10))


def test_pickles_are_rows_of_channel_row_column_with_fine_labels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish("cifar100", tmp_path, monkeypatch)
    source = published.cifar100(tmp_path)
    assert source.train.labels.tolist() == [99, 98, 97] and source.test.labels.tolist() == [99, 98]
    assert source.classes[:2] == ("class 0", "class 1") and len(source.classes) == 100
    assert source.train.images[2, 1, 7, 30] == (2 * 3072 + 1024 + 7 * 32 + 30) % 251


@pytest.mark.parametrize("packed", [True, False])
def test_idx_files_are_header_then_images_or_labels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, packed: bool
) -> None:
    publish("fashion-mnist", tmp_path, monkeypatch)
    for path in list(tmp_path.iterdir()) if packed else ():
        (tmp_path / f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes(), mtime=0))
        path.unlink()
    source = published.fashion_mnist(tmp_path)
    assert source.train.images.shape == (3, 1, 28, 28)
    assert source.train.images[2, 0, 5, 9] == (2 * 784 + 5 * 28 + 9) % 251
    assert source.train.labels.tolist() == [7, 8, 9]
    assert source.test.labels.tolist() == [7, 8]
    source.train.images.zero_()


def test_label_ten_is_the_digit_zero(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    publish("svhn", tmp_path, monkeypatch)
    source = published.svhn(tmp_path)
    assert source.train.labels.tolist() == [0, 1, 9, 0]
    assert source.classes[0] == "0"
    assert len(source.test) == 2


def test_pixels_are_brought_to_channel_row_column(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    publish("svhn", tmp_path, monkeypatch)
    images = published.svhn(tmp_path).train.images
    assert images.shape == (4, 3, 32, 32)
    assert images[3, 2, 5, 30] == PIXELS[5, 30, 2, 3]
    assert images.is_contiguous()


def test_without_scipy_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scipy.io", None)
    with pytest.raises(UserError, match=r"scipy.* is not installed; run `pip install 'soar-robust\[svhn\]"):
        published.svhn(tmp_path)


@pytest.mark.parametrize(
    ("packed", "message"),
    [
        (b"no gzip", r"cannot be read \(Not a gzipped file"),
        (gzip.compress(bytes(64 << 20), 1), "wrong contents, more than the 10 bytes"),
        (gzip.compress(b"cut", mtime=0)[:-9], "cannot be read"),
        (bytes(2 << 20), "2097152 bytes, allowed are at most 1048586"),
    ],
)
def test_packed_files_are_unpacked_with_care(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, packed: bytes, message: str
) -> None:
    publish("fashion-mnist", tmp_path, monkeypatch)
    (tmp_path / "t10k-labels-idx1-ubyte").unlink()
    (tmp_path / "t10k-labels-idx1-ubyte.gz").write_bytes(packed)
    with pytest.raises(UserError, match=message):
        published.fashion_mnist(tmp_path)


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda held: held[:-1], r"wrong contents, \d+ of the \d+ bytes"),
        (lambda held: held + b"x", r"\d+ bytes, allowed are at most \d+"),
        (lambda held: held[:-1] + bytes([held[-1] ^ 1]), r"wrong contents, md5 is"),
        (lambda held: b"", r"wrong contents, 0 of the"),
    ],
)
def test_other_contents_than_the_published_are_refused(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    change: Callable[[bytes], bytes],
    message: str,
) -> None:
    publish(name, tmp_path, monkeypatch)
    path = tmp_path / FETCHABLE[name][-1].name
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(UserError, match=rf"{path.name}: {message}.*; run `soar data verify {name}`$"):
        READERS[name](tmp_path)


def test_classes_are_balanced() -> None:
    source = published.fashion_mnist_sample(BUNDLED_FOLDER)
    assert np.bincount(source.train.labels).tolist() == [1000] * 10
    assert np.bincount(source.test.labels).tolist() == [200] * 10


def test_pixels_are_those_of_the_original() -> None:
    source = published.fashion_mnist_sample(BUNDLED_FOLDER)
    assert source.train.images.shape == (10000, 1, 28, 28)
    assert source.train.images.sum() == 573_133_949
    assert source.test.images.sum() == 114_072_606
    assert source.train.labels[:10].tolist() == [9, 0, 0, 3, 0, 2, 7, 2, 5, 5]


def test_indices_are_positions_in_the_full_files() -> None:
    source = published.fashion_mnist_sample(BUNDLED_FOLDER)
    for part, last in ((source.train, 10647), (source.test, 2087)):
        assert part.indices[-1] == last
        assert (np.diff(part.indices) > 0).all()


def test_files_are_whole_and_licensed() -> None:
    assert [state(BUNDLED_FOLDER, file) for file in BUNDLED_FILES] == ["ok"] * 3
    assert [(BUNDLED_FOLDER / file.name).stat().st_size for file in BUNDLED_FILES] == [
        file.size for file in BUNDLED_FILES
    ]
    assert "Copyright (c) 2017 Zalando SE" in (BUNDLED_FOLDER / "LICENSE").read_text()


def test_reading_is_quick() -> None:
    started = time.process_time()
    published.fashion_mnist_sample(BUNDLED_FOLDER)
    assert time.process_time() - started < 2.0
