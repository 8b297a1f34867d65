"""Images in `.npy` files, `x_train`, `y_train`, `x_test` and `y_test` in one folder, read row by row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from soar.data.dataset import Dataset, Split, from_files, labeled_stored
from soar.data.files import memory_limit, open_regular, parsing
from soar.data.npz import classes_of, in_layout, whole_numbers
from soar.data.stored import Pixels, Rows, StoredImages
from soar.errors import UserError


class Mapped(StoredImages):
    """Images in one `.npy` file.

    Rows are read from the file, not through a memory map: pages of a map count as memory of the process.

    Args:
        path: the file

    Raises:
        UserError: it is no plain array of images
    """

    def __init__(self, path: Path) -> None:
        with parsing(path, "not a .npy file of a plain array"):
            array = np.load(path, mmap_mode="r", allow_pickle=False)
            if not isinstance(array, np.memmap):
                raise ValueError("it is an archive of several arrays")
        view = in_layout(array, str(path))
        if not array.flags.c_contiguous:
            raise UserError(f"{path}: its columns are stored one after the other, expected rows (order C)")
        self._path, self._offset, self._row = path, array.offset, array.shape[1:]
        self._is_last = array.ndim == 4 and view.shape[1:] != self._row
        super().__init__((len(view), *view.shape[1:]))

    def read(self, rows: Rows) -> Pixels:
        """Return some images, in the order given."""
        found = np.empty((len(rows), *self._row), np.uint8)
        size = found[:1].nbytes
        with parsing(self._path, "cannot be read"), self._path.open("rb", buffering=0) as stream:
            for place, row in enumerate(rows.tolist()):
                stream.seek(self._offset + row * size)
                if stream.readinto(found[place].data) != size:
                    raise ValueError("it has become shorter")
        if found.ndim == 3:
            return found[:, None]
        return np.ascontiguousarray(found.transpose(0, 3, 1, 2)) if self._is_last else found


def read(folder: Path) -> Dataset:
    """Read a folder with `x_test.npy` and `y_test.npy`, and `x_train.npy` and `y_train.npy` where there are.

    Arrays are laid out as in an .npz archive; nothing is ever unpickled.

    Args:
        folder: the folder

    Raises:
        UserError: a file is missing or is not such an array
    """
    if not folder.is_dir():
        raise UserError(f"npy:{folder}: there is no such folder, expected one with x_test.npy and y_test.npy")
    has_train = any((folder / f"{kind}_train.npy").exists() for kind in "xy")
    parts = ("train", "test") if has_train else ("test",)
    images = {part: Mapped(folder / f"x_{part}.npy") for part in parts}
    labels = {part: _labels(folder / f"y_{part}.npy") for part in parts}
    if has_train and images["train"].shape[1:] != images["test"].shape[1:]:
        raise UserError(
            f"{folder}: x_train.npy has images of shape {images['train'].shape[1:]}, x_test.npy of"
            f" {images['test'].shape[1:]}"
        )
    named = folder / "classes.npy"
    classes = classes_of(_array(named) if named.exists() else None, list(labels.values()), folder)

    def pair(part: str) -> Split:
        where = str(folder / f"y_{part}.npy")
        return labeled_stored(images[part], labels[part], num_classes=len(classes), where=where)

    return from_files(str(folder), classes, pair("train") if has_train else None, pair("test"))


def _labels(path: Path) -> NDArray[Any]:
    return whole_numbers(_array(path), str(path))


def _array(path: Path) -> NDArray[Any]:
    with open_regular(path, memory_limit()) as stream, parsing(path, "not a .npy file of a plain array"):
        found: NDArray[Any] = np.load(stream, allow_pickle=False)
    return found
