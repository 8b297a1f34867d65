"""The files of CIFAR-10-C: for each corruption the test images at severity 1, then at 2, and so on to 5."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from soar.data.catalog import expanded
from soar.data.corruptions import CORRUPTIONS, SEVERITIES
from soar.data.files import memory_limit, open_regular, parsing
from soar.errors import UserError


@dataclass(frozen=True)
class CorruptedFiles:
    """A folder with `labels.npy` and one `NAME.npy` for each corruption, as CIFAR-10-C and CIFAR-100-C are.

    Args:
        folder: where they are; nothing in it is ever unpickled

    Raises:
        UserError: a file is missing, or its arrays are not of this kind
    """

    folder: Path

    def __post_init__(self) -> None:
        object.__setattr__(self, "folder", expanded(self.folder))
        for name in CORRUPTIONS:
            self._array(name)

    def images(self, name: str, severity: int, index: Tensor, labels: Tensor) -> Tensor:
        """Read images, uint8 of shape (N, 3, height, width).

        Args:
            name: the corruption
            severity: 1 to 5
            index: the position of each image in the test set
            labels: their classes, which must be those of the files

        Raises:
            UserError: if the files hold no image at a position, or one of another class
        """
        own = self._labels()
        count = len(own) // len(SEVERITIES)
        if len(index) and not (int(index.min()) >= 0 and int(index.max()) < count):
            raise UserError(
                f"{self.folder}: holds {count} images of each severity, but not image"
                f" {int(index.max())}; expected the files made of the whole test set"
            )
        rows = (severity - 1) * count + index.cpu().numpy()
        if (different := own[rows] != labels.cpu().numpy()).any():
            first = int(different.nonzero()[0][0])
            raise UserError(
                f"{self.folder}/labels.npy: image {int(index[first])} has label {own[rows[first]]}, but"
                f" {int(labels[first])} in the data; expected the files made of the same test set"
            )
        return torch.from_numpy(np.ascontiguousarray(self._array(name)[rows].transpose(0, 3, 1, 2)))

    def _labels(self) -> NDArray[Any]:
        path = self.folder / "labels.npy"
        labels = _mapped(path)
        if labels.dtype.kind not in "iu" or labels.ndim != 1 or len(labels) % len(SEVERITIES):
            raise UserError(
                f"{path}: got {labels.dtype} of shape {labels.shape}, expected whole numbers, as many for"
                " each of 5 severities"
            )
        return labels

    def _array(self, name: str) -> NDArray[Any]:
        path, count = self.folder / f"{name}.npy", len(self._labels())
        pixels = _mapped(path)
        if pixels.dtype != np.uint8 or pixels.ndim != 4 or pixels.shape[::3] != (count, 3):
            raise UserError(
                f"{path}: got {pixels.dtype} of shape {pixels.shape},"
                f" expected uint8 of shape ({count}, height, width, 3)"
            )
        return pixels


def _mapped(path: Path) -> NDArray[Any]:
    """Map an array into memory, of which only what is used is read."""
    with parsing(path, "not an .npy file of a plain array"):
        open_regular(path, 64 * memory_limit()).close()
        return np.asarray(np.lib.format.open_memmap(path, mode="r"))
