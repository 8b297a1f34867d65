"""A dataset: images as bytes, labels, and the stable identity of every example."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from soar.data.stored import Pixels, StoredImages, select, settled
from soar.errors import UserError, printable

# ImageNet-21K, the largest in use, has 21,841.
MOST_CLASSES = 100_000
_LONGEST_NAME = 200


@dataclass(frozen=True, eq=False)
class Split:
    """Labeled images that are used for one purpose.

    Args:
        stored: the images, uint8, shape (N, channels, height, width), in memory or read when indexed
        labels: int64, shape (N,)
        indices: int64, shape (N,); the position in the source file, which identifies an example
            whatever is selected or shuffled

    >>> split = Split(torch.zeros(3, 1, 2, 2, dtype=torch.uint8), torch.arange(3), torch.arange(3))
    >>> split.subset(torch.tensor([2, 0])).labels.tolist()
    [2, 0]
    """

    stored: Tensor | StoredImages
    labels: Tensor
    indices: Tensor

    def __post_init__(self) -> None:
        if self.stored.dtype != torch.uint8 or self.stored.ndim != 4:
            raise UserError(
                f"images: got {self.stored.dtype} of shape {tuple(self.stored.shape)}, "
                "expected uint8 (N, channels, height, width)"
            )
        for name in ("labels", "indices"):
            numbers: Tensor = getattr(self, name)
            if numbers.dtype != torch.int64 or numbers.shape != self.stored.shape[:1]:
                raise UserError(
                    f"{name}: got {numbers.dtype} of shape {tuple(numbers.shape)}, "
                    f"expected int64 ({len(self.stored)},)"
                )

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def images(self) -> Tensor:
        """All images in memory; those that are in files are read at each call."""
        return self.stored[:]

    def subset(self, rows: Tensor) -> Split:
        """Return some examples, in the order given; images that are not in memory stay where they are.

        Args:
            rows: positions in this split, not in the source file
        """
        return self._select(rows)

    def first(self, n: int) -> Split:
        """Return the first `n` examples, or all where there are fewer; shares their memory."""
        return self._select(slice(n))

    def _select(self, rows: Tensor | slice) -> Split:
        return Split(select(self.stored, rows), self.labels[rows], self.indices[rows])


@dataclass(frozen=True, eq=False)
class Dataset:
    """The examples to train on, to select by, and to report.

    Args:
        name: as it was given to `load`
        classes: the name of every class
        shape: channels, height and width of an image
        train: the training examples
        validation: examples held out of the training files, for early stopping and model selection
        test: the examples of the test files, all of them; nothing is ever selected by these
    """

    name: str
    classes: tuple[str, ...]
    shape: tuple[int, int, int]
    train: Split
    validation: Split
    test: Split


def from_files(name: str, classes: tuple[str, ...], train: Split | None, test: Split | None) -> Dataset:
    """Return a dataset as its files hold it, with no validation examples yet.

    Args:
        name: the file or folder
        classes: the name of each class, in order
        train: the training examples; None where there are none, as when a model is only evaluated
        test: the test examples; None where there are none, as in a second source to learn from
    """
    none = next(part for part in (train, test) if part is not None).first(0)
    channels, height, width = none.stored.shape[1:]
    return Dataset(name, classes, (channels, height, width), train or none, none, test or none)


def labeled_stored(images: StoredImages, labels: NDArray[Any], *, num_classes: int, where: str) -> Split:
    """Pair images with labels, and check that they fit together; few or small ones are read at once.

    Args:
        images: the images
        labels: the class of each, integers of any type
        num_classes: labels run from 0 to one less
        where: the file, for messages

    Raises:
        UserError: for a different number of images and labels, or a label out of range
    """
    check_labels(labels, len(images), num_classes=num_classes, where=where)
    numbers = torch.from_numpy(labels.astype(np.int64))
    return Split(settled(images), numbers, torch.arange(len(numbers), device="cpu"))


def class_names(names: Iterable[str], where: str) -> tuple[str, ...]:
    """Return names of classes that are safe to show anywhere.

    Args:
        names: the name of each class, in order
        where: the file, for the message

    Raises:
        UserError: there are more than any dataset has a use for
    """
    shown = tuple(printable(name, _LONGEST_NAME) for name in islice(names, MOST_CLASSES + 1))
    if len(shown) > MOST_CLASSES:
        raise UserError(f"{where}: got more than {MOST_CLASSES} classes, which is the most that are allowed")
    return shown


def labeled(
    images: Pixels, labels: NDArray[Any], *, num_classes: int, where: str, indices: NDArray[Any] | None = None
) -> Split:
    """Pair images with labels, and check that they fit together.

    Args:
        images: shape (N, channels, height, width)
        labels: N integers, of any type
        num_classes: labels run from 0 to one less
        where: the file, for messages
        indices: the position of each image in its source file; by default its position here

    Raises:
        UserError: for a different number of images and labels, none at all, or a label out of range
    """
    if images.size == 0:
        raise UserError(
            f"{where}: got images of shape {images.shape[1:]} and {len(images)} of them, expected some"
        )
    check_labels(labels, len(images), num_classes=num_classes, where=where)
    numbers = np.arange(len(labels)) if indices is None else indices
    return Split(
        torch.from_numpy(images),
        torch.from_numpy(labels.astype(np.int64)),
        torch.from_numpy(numbers.astype(np.int64)),
    )


def check_labels(labels: NDArray[Any], count: int, *, num_classes: int, where: str) -> None:
    """Check that there is a label for each image, and that all are classes.

    Args:
        labels: integers of any type
        count: how many images there are
        num_classes: labels run from 0 to one less
        where: the file, for messages

    Raises:
        UserError: for a different number, or a label out of range
    """
    if count != len(labels):
        raise UserError(f"{where}: got {count} images but {len(labels)} labels")
    if not (labels.min() >= 0 and labels.max() < num_classes):
        raise UserError(
            f"{where}: got labels from {labels.min()} to {labels.max()}, allowed are 0 to {num_classes - 1}"
        )


def to_unit(images: Tensor) -> Tensor:
    """Return pixels as numbers from 0 to 1: bytes are divided by 255, such numbers returned unchanged.

    Args:
        images: uint8, or floating point in [0, 1]

    Raises:
        UserError: another type, or values outside [0, 1]

    >>> to_unit(torch.tensor([0, 51, 255], dtype=torch.uint8))
    tensor([0.0000, 0.2000, 1.0000])
    """
    if images.dtype == torch.uint8:
        return images.to(torch.float32).div_(255)
    if not images.is_floating_point():
        raise UserError(f"images: got {images.dtype}, allowed are uint8 and floats in [0, 1]")
    if images.numel() and not bool(((images >= 0) & (images <= 1)).all()):
        low, high = images.min().item(), images.max().item()
        raise UserError(
            f"images: got values from {low:.4g} to {high:.4g}, allowed are uint8 and floats in "
            "[0, 1]; normalization belongs inside the model"
        )
    return images
