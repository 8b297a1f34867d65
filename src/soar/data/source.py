"""What every source of data gives: labeled images as plain arrays, checked before anyone uses them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from soar.errors import UserError, printable

Pixels = NDArray[np.uint8]
Integers = NDArray[np.int64]
# ImageNet-21K, the largest in use, has 21,841.
MOST_CLASSES = 100_000
_LONGEST_NAME = 200


@dataclass(frozen=True, eq=False)
class Examples:
    """Labeled images in the order of their file.

    Args:
        images: pixels, shape (N, channels, height, width)
        labels: the class of each image
        indices: the position of each image in its source file
    """

    images: Pixels
    labels: Integers
    indices: Integers

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True, eq=False)
class Source:
    """A data set as its files hold it: what to learn from, what to test on, what the classes are."""

    classes: tuple[str, ...]
    train: Examples
    test: Examples


def examples(images: Pixels, labels: NDArray[Any], *, num_classes: int, where: str) -> Examples:
    """Pair images with labels and number them; refuse what does not fit together.

    Args:
        images: shape (N, channels, height, width)
        labels: N whole numbers, of any integer type
        num_classes: labels run from 0 to one less
        where: the file, for messages

    Raises:
        UserError: for a different number of images and labels, none at all, or a label out of range
    """
    if images.size == 0:
        raise UserError(
            f"{where}: got images of shape {images.shape[1:]} and {len(images)} of them, expected some"
        )
    if len(images) != len(labels):
        raise UserError(f"{where}: got {len(images)} images but {len(labels)} labels")
    if len(labels) and not (labels.min() >= 0 and labels.max() < num_classes):
        raise UserError(
            f"{where}: got labels from {labels.min()} to {labels.max()}, allowed are 0 to {num_classes - 1}"
        )
    return Examples(images, labels.astype(np.int64), np.arange(len(labels), dtype=np.int64))


def class_names(names: Iterable[str], where: str) -> tuple[str, ...]:
    """Return names of classes that can be shown anywhere.

    Args:
        names: one for each class, in order
        where: the file, for the message

    Raises:
        UserError: there are more than any data set has a use for
    """
    shown = tuple(printable(name, _LONGEST_NAME) for name in islice(names, MOST_CLASSES + 1))
    if len(shown) > MOST_CLASSES:
        raise UserError(f"{where}: got more than {MOST_CLASSES} classes, which is the most that are allowed")
    return shown


def no_examples(shape: tuple[int, int, int]) -> Examples:
    """Stand in for a training set that is not there, as when a model is only evaluated."""
    return Examples(np.empty((0, *shape), np.uint8), np.empty(0, np.int64), np.empty(0, np.int64))
