from pathlib import Path

import numpy as np
import pytest

from soar.data import cifar10
from soar.errors import UserError


def write_files(folder: Path, *, records: int = 2) -> None:
    """Write small files of the official layout; every pixel tells its file, image, place."""
    for number, file in enumerate(cifar10.FILES):
        contents = bytearray()
        for record in range(records):
            contents.append((number * records + record) % 10)
            planes = np.arange(3072) * (number + 1) + record
            contents += (planes % 256).astype(np.uint8).tobytes()
        (folder / file.name).write_bytes(bytes(contents))


def test_records_are_label_then_channel_row_column(tmp_path: Path) -> None:
    write_files(tmp_path)
    source = cifar10.read(tmp_path)
    assert source.train.images.shape == (10, 3, 32, 32)
    assert source.train.labels.tolist() == list(range(10))
    assert source.test.labels.tolist() == [0, 1]
    image, channel, row, column = 5, 2, 7, 30
    place = channel * 1024 + row * 32 + column
    assert source.train.images[image, channel, row, column] == (place * 3 + 1) % 256
    assert source.train.indices.tolist() == list(range(10))


def test_a_file_cut_short_is_refused(tmp_path: Path) -> None:
    write_files(tmp_path)
    path = tmp_path / "data_batch_3.bin"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(UserError, match=r"data_batch_3\.bin: got 6145 bytes, .*3073 bytes.*verify"):
        cifar10.read(tmp_path)


def test_an_empty_file_is_refused(tmp_path: Path) -> None:
    write_files(tmp_path)
    (tmp_path / "test_batch.bin").write_bytes(b"")
    with pytest.raises(UserError, match=r"test_batch\.bin: got 0 bytes"):
        cifar10.read(tmp_path)


def test_a_label_above_nine_is_refused(tmp_path: Path) -> None:
    write_files(tmp_path)
    path = tmp_path / "test_batch.bin"
    path.write_bytes(b"\x0a" + path.read_bytes()[1:])
    with pytest.raises(UserError, match=r"got labels from 1 to 10, allowed are 0 to 9"):
        cifar10.read(tmp_path)
