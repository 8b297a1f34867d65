import gzip
import struct
import time
from pathlib import Path

import numpy as np
import pytest

from soar.data import fashion_mnist
from soar.data.files import BUNDLED_FILES, BUNDLED_FOLDER, state
from soar.errors import UserError


def idx(array: np.ndarray) -> bytes:
    header = bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    return header + array.astype(np.uint8).tobytes()


def write(folder: Path, *, packed: bool) -> None:
    pixels = np.arange(3 * 28 * 28).reshape(3, 28, 28) % 251
    for part, count in (("train", 3), ("t10k", 2)):
        for name, array in (
            ("images-idx3-ubyte", pixels[:count]),
            ("labels-idx1-ubyte", np.arange(count) + 7),
        ):
            path = folder / f"{part}-{name}{'.gz' if packed else ''}"
            path.write_bytes(gzip.compress(idx(array), mtime=0) if packed else idx(array))


@pytest.mark.parametrize("packed", [True, False])
def test_plain_and_compressed_files_are_read(tmp_path: Path, packed: bool) -> None:
    write(tmp_path, packed=packed)
    source = fashion_mnist.read(tmp_path)
    assert source.train.images.shape == (3, 1, 28, 28)
    assert source.train.images[2, 0, 5, 9] == (2 * 784 + 5 * 28 + 9) % 251
    assert source.train.labels.tolist() == [7, 8, 9]
    assert source.test.labels.tolist() == [7, 8]
    source.train.images.zero_()


def test_another_kind_of_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(idx(np.zeros(4)))
    with pytest.raises(UserError, match=r"begins with bytes 00 00 08 01, expected 00 00 08 03"):
        fashion_mnist.read_idx(path, dimensions=3, limit=100)


@pytest.mark.parametrize("change", [-1, 1])
def test_a_file_of_wrong_length_is_refused(tmp_path: Path, change: int) -> None:
    contents = idx(np.zeros((2, 3, 3)))
    path = tmp_path / "file"
    path.write_bytes(contents[:change] if change < 0 else contents + b"x")
    with pytest.raises(UserError, match=rf"got {18 + change} values, expected 18 for shape \(2, 3, 3"):
        fashion_mnist.read_idx(path, dimensions=3, limit=100)


def test_a_file_without_its_header_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes([0, 0, 8, 3, 0]))
    with pytest.raises(UserError, match="idx file with 3 dimensions"):
        fashion_mnist.read_idx(path, dimensions=3, limit=100)


def test_classes_are_balanced() -> None:
    source = fashion_mnist.read(BUNDLED_FOLDER)
    assert np.bincount(source.train.labels).tolist() == [1000] * 10
    assert np.bincount(source.test.labels).tolist() == [200] * 10


def test_pixels_are_those_of_the_original() -> None:
    source = fashion_mnist.read(BUNDLED_FOLDER)
    assert source.train.images.shape == (10000, 1, 28, 28)
    assert source.train.images.sum() == 573_133_949
    assert source.test.images.sum() == 114_072_606
    assert source.train.labels[:10].tolist() == [9, 0, 0, 3, 0, 2, 7, 2, 5, 5]


def test_indices_are_positions_in_the_full_files() -> None:
    source = fashion_mnist.read(BUNDLED_FOLDER)
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
    fashion_mnist.read(BUNDLED_FOLDER)
    assert time.process_time() - started < 2.0
