"""Fashion-MNIST: 28 x 28 gray pictures of ten kinds of clothes."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from soar.data.files import File, located
from soar.data.reading import read_bytes
from soar.data.source import Examples, Pixels, Source, examples
from soar.errors import UserError

CLASSES = (
    "T-shirt/top",
    "trouser",
    "pullover",
    "dress",
    "coat",
    "sandal",
    "shirt",
    "sneaker",
    "bag",
    "ankle boot",
)
FILES = (
    File("train-images-idx3-ubyte", 47_040_016, "f4a8712d7a061bf5bd6d2ca38dc4d50a"),
    File("train-labels-idx1-ubyte", 60_008, "9018921c3c673c538a1fc5bad174d6f9"),
    File("t10k-images-idx3-ubyte", 7_840_016, "8181f5470baa50b63fa0f6fddb340f0a"),
    File("t10k-labels-idx1-ubyte", 10_008, "15d484375f8d13e6eb1aabb0c3f46965"),
)


def read(folder: Path) -> Source:
    """Read the four idx files, plain or compressed with gzip.

    Args:
        folder: where `train-images-idx3-ubyte[.gz]` and the three others lie

    Raises:
        UserError: a file is damaged, cut short or holds something else
    """
    return Source(CLASSES, _read_pair(folder, *FILES[:2]), _read_pair(folder, *FILES[2:]))


def _read_pair(folder: Path, images: File, labels: File) -> Examples:
    pixels = read_idx(located(folder, images.name), dimensions=3, limit=images.size)
    numbers = read_idx(located(folder, labels.name), dimensions=1, limit=labels.size)
    where = str(located(folder, labels.name))
    return examples(pixels[:, None], numbers, num_classes=len(CLASSES), where=where)


def read_idx(path: Path, *, dimensions: int, limit: int) -> Pixels:
    """Read an idx file of bytes: a magic number, the length of each dimension, the values.

    Args:
        path: the file; unpacked where its name ends in .gz
        dimensions: how many dimensions it must have
        limit: how many bytes it may hold

    Raises:
        UserError: the file is not such an idx file
    """
    contents = read_bytes(path, limit)
    header = 4 * (1 + dimensions)
    magic = bytes([0, 0, 8, dimensions])
    if contents[:4] != magic or len(contents) < header:
        raise UserError(
            f"{path}: begins with bytes {contents[:4].hex(' ')}, "
            f"expected {magic.hex(' ')} of an idx file with {dimensions} dimensions"
        )
    shape = tuple(int(length) for length in np.frombuffer(contents, ">u4", dimensions, 4))
    # Not numpy's product, which overflows.
    if len(contents) - header != math.prod(shape):
        raise UserError(
            f"{path}: got {len(contents) - header} values, expected {math.prod(shape)} "
            f"for shape {shape}; the file was cut short or damaged"
        )
    return np.frombuffer(contents, np.uint8, offset=header).reshape(shape).copy()
