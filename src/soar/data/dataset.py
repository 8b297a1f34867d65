"""A data set in memory: images as bytes, labels, and the stable identity of every example."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from soar.errors import UserError


@dataclass(frozen=True, eq=False)
class Split:
    """Labeled images that are used for one purpose.

    Args:
        images: uint8, shape (N, channels, height, width)
        labels: int64, shape (N,)
        indices: int64, shape (N,); the position in the source file, which identifies an example
            whatever is selected or shuffled

    >>> split = Split(torch.zeros(3, 1, 2, 2, dtype=torch.uint8), torch.arange(3), torch.arange(3))
    >>> split.subset(torch.tensor([2, 0])).labels.tolist()
    [2, 0]
    """

    images: Tensor
    labels: Tensor
    indices: Tensor

    def __post_init__(self) -> None:
        if self.images.dtype != torch.uint8 or self.images.ndim != 4:
            raise UserError(
                f"images: got {self.images.dtype} of shape {tuple(self.images.shape)}, "
                "expected uint8 (N, channels, height, width)"
            )
        for name in ("labels", "indices"):
            numbers: Tensor = getattr(self, name)
            if numbers.dtype != torch.int64 or numbers.shape != self.images.shape[:1]:
                raise UserError(
                    f"{name}: got {numbers.dtype} of shape {tuple(numbers.shape)}, "
                    f"expected int64 ({len(self.images)},)"
                )

    def __len__(self) -> int:
        return len(self.labels)

    def subset(self, rows: Tensor) -> Split:
        """Take some examples, in the order given.

        Args:
            rows: positions in this split, not in the source file
        """
        return Split(self.images[rows], self.labels[rows], self.indices[rows])

    def first(self, n: int) -> Split:
        """Take the first `n` examples, or all where there are fewer; shares their memory."""
        return Split(self.images[:n], self.labels[:n], self.indices[:n])


@dataclass(frozen=True, eq=False)
class Dataset:
    """What to train on, what to choose by, and what to report.

    Args:
        name: what was asked for
        classes: the name of every class
        shape: channels, height and width of an image
        train: the examples to learn from
        validation: examples held out of the training files, for early stopping and choices
        test: the examples of the test files, all of them; nothing is ever chosen by these
    """

    name: str
    classes: tuple[str, ...]
    shape: tuple[int, int, int]
    train: Split
    validation: Split
    test: Split


def to_unit(images: Tensor) -> Tensor:
    """Return pixels as numbers from 0 to 1: bytes are divided by 255, such numbers pass unchanged.

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
