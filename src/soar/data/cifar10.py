"""CIFAR-10 in its official binary form: 32 x 32 color photographs of ten kinds of things."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from soar.data.dataset import Dataset, Split, from_files, labeled
from soar.data.files import FETCHABLE, File, located, read_bytes
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
*TRAIN, TEST = FILES = FETCHABLE["cifar10"]


def read(folder: Path) -> Dataset:
    """Read the six binary files.

    Each holds records of one label byte and 3,072 pixels (channel, row, column).

    Args:
        folder: where `data_batch_1.bin` to `data_batch_5.bin` and `test_batch.bin` are

    Raises:
        UserError: a file is not a whole number of records, or a label is above 9
    """
    return from_files(str(folder), CLASSES, _read_records(folder, TRAIN), _read_records(folder, [TEST]))


def _read_records(folder: Path, files: list[File]) -> Split:
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
    return labeled(images, labels, num_classes=len(CLASSES), where=str(folder))
