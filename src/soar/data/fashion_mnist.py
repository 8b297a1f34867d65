"""Fashion-MNIST: 28 x 28 gray images of ten kinds of clothes, in full or the sample inside the package."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from soar.data.dataset import Dataset, Pixels, Split, from_files, labeled
from soar.data.files import BUNDLED_FOLDER, FETCHABLE, File, located, read_bytes
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
FILES = FETCHABLE["fashion-mnist"]


def read(folder: Path) -> Dataset:
    """Read the four idx files, plain or compressed with gzip, or the sample where it is that folder.

    Args:
        folder: where `train-images-idx3-ubyte[.gz]` and the three others are

    Raises:
        UserError: a file is damaged, cut short or holds something else
    """
    if folder == BUNDLED_FOLDER:
        return _read_sample(folder)
    return from_files(str(folder), CLASSES, _read_pair(folder, *FILES[:2]), _read_pair(folder, *FILES[2:]))


def _read_pair(folder: Path, images: File, labels: File) -> Split:
    pixels = read_idx(located(folder, images.name), dimensions=3, limit=images.size)
    numbers = read_idx(located(folder, labels.name), dimensions=1, limit=labels.size)
    where = str(located(folder, labels.name))
    return labeled(pixels[:, None], numbers, num_classes=len(CLASSES), where=where)


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


def _read_sample(folder: Path) -> Dataset:
    """Read the first 1,000 training and 200 test images of every class, in file order.

    Images are stacked in a PNG file 28 pixels wide, the smallest format that unpacks in a tenth of a second;
    labels and the positions in the full files are in an .npz file.
    """
    from PIL import Image

    parts = []
    with np.load(folder / "labels.npz", allow_pickle=False) as arrays:
        for part in ("train", "test"):
            with Image.open(folder / f"{part}.png", formats=["PNG"]) as picture:
                pixels = np.array(picture).reshape(-1, 1, 28, 28)
            labels, indices = arrays[f"{part}_labels"], arrays[f"{part}_indices"]
            parts.append(
                labeled(pixels, labels, num_classes=len(CLASSES), where=str(folder), indices=indices)
            )
    return from_files(str(folder), CLASSES, *parts)
