import gzip
import struct
from pathlib import Path

import numpy as np
import pytest

from soar.data import fashion_mnist
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
    assert source.train.images.flags.writeable


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
