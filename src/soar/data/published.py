"""The named datasets, read from exactly the files that were published."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np

from soar.data.dataset import Dataset, class_names, from_files, labeled
from soar.data.files import parsing
from soar.data.pickled import array_of, read_plain, texts_of
from soar.data.unverified import contents_of
from soar.errors import UserError

CIFAR10_CLASSES = (
    "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck",
)  # fmt: skip
FASHION_CLASSES = (
    "T-shirt/top", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot",
)  # fmt: skip
DIGITS = tuple(str(digit) for digit in range(10))
CIFAR10_RECORD = 1 + 3 * 32 * 32


def cifar10(folder: Path) -> Dataset:
    """Read the six binary files: records of one label byte and 3,072 pixels (channel, row, column).

    Args:
        folder: where `data_batch_1.bin` to `data_batch_5.bin` and `test_batch.bin` are

    Raises:
        UserError: a file is missing, or does not have the published contents
    """
    files = [
        np.frombuffer(one, np.uint8).reshape(-1, CIFAR10_RECORD) for one in contents_of("cifar10", folder)
    ]
    parts = []
    for part in (files[:-1], files[-1:]):
        images = np.concatenate([records[:, 1:] for records in part]).reshape(-1, 3, 32, 32)
        labels = np.concatenate([records[:, 0] for records in part])
        parts.append(labeled(images, labels, num_classes=10, where=str(folder)))
    return from_files(str(folder), CIFAR10_CLASSES, *parts)


def cifar100(folder: Path) -> Dataset:
    """Read the pickles `train`, `test` and `meta` without unpickling them; the labels are the fine ones.

    Args:
        folder: where they are

    Raises:
        UserError: a file is missing, or does not have the published contents
    """
    *batches, meta = [read_plain(one, str(folder)) for one in contents_of("cifar100", folder)]
    with parsing(folder, "not the files of CIFAR-100"):
        classes = class_names(texts_of(meta["fine_label_names"]), str(folder))
        parts = [
            labeled(
                array_of(batch["data"]).reshape(-1, 3, 32, 32),
                np.array(batch["fine_labels"]),
                num_classes=len(classes),
                where=str(folder),
            )
            for batch in batches
        ]
    return from_files(str(folder), classes, *parts)


def svhn(folder: Path) -> Dataset:
    """Read the two MATLAB files; in them the digit 0 carries the label 10.

    Args:
        folder: where `train_32x32.mat` and `test_32x32.mat` are

    Raises:
        UserError: scipy is not installed, or a file is missing or does not have the published contents
    """
    try:
        from scipy.io import loadmat
    except ImportError:
        raise UserError(
            "svhn: scipy, which reads its MATLAB files, is not installed;"
            " run `pip install 'soar-robust[svhn]'`"
        ) from None
    parts = []
    for contents in contents_of("svhn", folder):
        arrays = loadmat(io.BytesIO(contents))
        images = np.ascontiguousarray(arrays["X"].transpose(3, 2, 0, 1))
        parts.append(labeled(images, arrays["y"].reshape(-1) % 10, num_classes=10, where=str(folder)))
    return from_files(str(folder), DIGITS, *parts)


def fashion_mnist(folder: Path) -> Dataset:
    """Read the four idx files: a header of 16 bytes before images, of 8 bytes before labels.

    Args:
        folder: where `train-images-idx3-ubyte[.gz]` and the three others are

    Raises:
        UserError: a file is missing, or does not have the published contents
    """
    bytes_of = [np.frombuffer(one, np.uint8) for one in contents_of("fashion-mnist", folder)]
    parts = [
        labeled(images[16:].reshape(-1, 1, 28, 28).copy(), labels[8:], num_classes=10, where=str(folder))
        for images, labels in (bytes_of[:2], bytes_of[2:])
    ]
    return from_files(str(folder), FASHION_CLASSES, *parts)


def fashion_mnist_sample(folder: Path) -> Dataset:
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
            parts.append(labeled(pixels, labels, num_classes=10, where=str(folder), indices=indices))
    return from_files(str(folder), FASHION_CLASSES, *parts)
