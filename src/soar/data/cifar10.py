"""CIFAR-10 in its official binary form: 32 x 32 color photographs of ten kinds of things."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from soar.data.files import File, located
from soar.data.reading import read_bytes
from soar.data.source import Examples, Source, examples
from soar.errors import UserError

CLASSES = (
    "airplane",
    "automobile",
    "bird",
    "cat",
    "deer",
    "dog",
    "frog",
    "horse",
    "ship",
    "truck",
)
RECORD = 1 + 3 * 32 * 32
_SIZE = 10_000 * RECORD
TRAIN = (
    File("data_batch_1.bin", _SIZE, "5dd7e06a14cb22eb9f671a540d1b7c25"),
    File("data_batch_2.bin", _SIZE, "5ea93a67294ea407fff1d09f752e9692"),
    File("data_batch_3.bin", _SIZE, "942cd6a4bcdd0dd3c604fbe906cb4421"),
    File("data_batch_4.bin", _SIZE, "ae636b3ba5c66a11e91e8cb52e771fcb"),
    File("data_batch_5.bin", _SIZE, "53f37980c15c3d472c316c40844f3f0d"),
)
TEST = File("test_batch.bin", _SIZE, "803d5f7f4d78ea53de84dbe85f74fb6d")
FILES = (*TRAIN, TEST)


def read(folder: Path) -> Source:
    """Read the six binary files.

    Each holds records of one label byte and 3,072 pixels (channel, row, column).

    Args:
        folder: where `data_batch_1.bin` to `data_batch_5.bin` and `test_batch.bin` lie

    Raises:
        UserError: a file is not a whole number of records, or a label is above 9
    """
    return Source(CLASSES, _read_records(folder, TRAIN), _read_records(folder, (TEST,)))


def _read_records(folder: Path, files: tuple[File, ...]) -> Examples:
    records = []
    for file in files:
        path = located(folder, file.name)
        contents = np.frombuffer(read_bytes(path, file.size), np.uint8)
        if len(contents) == 0 or len(contents) % RECORD:
            raise UserError(
                f"{path}: got {len(contents)} bytes, expected records of {RECORD} bytes; "
                "run `soar data verify cifar10`"
            )
        records.append(contents.reshape(-1, RECORD))
    images = np.concatenate([record[:, 1:] for record in records]).reshape(-1, 3, 32, 32)
    labels = np.concatenate([record[:, 0] for record in records])
    return examples(images, labels, num_classes=len(CLASSES), where=str(folder))
