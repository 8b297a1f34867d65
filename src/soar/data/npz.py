"""Images in one numpy archive: `x_train`, `y_train`, `x_test`, `y_test`."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from soar.data.dataset import Dataset, Split, class_names, from_files, labeled
from soar.data.files import check_memory, memory_limit, open_regular, parsing
from soar.data.stored import Pixels
from soar.errors import UserError, printable

_CHANNELS = (1, 3)
_NAMES = ("x_train", "y_train", "x_test", "y_test", "classes")
_LONGEST_NAME, _MOST_LISTED = 40, 10


def read(path: Path) -> Dataset:
    """Read an .npz archive; nothing in it is ever unpickled.

    Images are uint8 of shape (N, height, width), (N, height, width, channels) or
    (N, channels, height, width) with 1 or 3 channels; labels are whole numbers from 0. The training
    arrays may both be left out where a model is only evaluated, the test arrays where it only learns
    from them. An optional array `classes` of strings names the classes.

    Args:
        path: the archive

    Raises:
        UserError: the file is not such an archive
    """
    arrays, held = _load(path)
    parts = [part for part in ("train", "test") if f"x_{part}" in arrays or f"y_{part}" in arrays]
    for name in (f"{kind}_{part}" for kind in "xy" for part in parts or ("test",)):
        if name not in arrays:
            listed = ", ".join(printable(one, _LONGEST_NAME) for one in held[:_MOST_LISTED]) or "nothing"
            raise UserError(
                f"{path}: array '{name}' is missing; it holds {listed}, "
                "expected x_train, y_train, x_test, y_test"
            )
    images = {part: _images(arrays[f"x_{part}"], f"{path}: x_{part}") for part in parts}
    labels = {part: whole_numbers(arrays[f"y_{part}"], f"{path}: y_{part}") for part in parts}
    first, last = (images[parts[place]].shape[1:] for place in (0, -1))
    if first != last:
        raise UserError(f"{path}: x_train has images of shape {first}, x_test of {last}")
    classes = classes_of(arrays.get("classes"), list(labels.values()), path)

    def pair(part: str) -> Split:
        where = f"{path}: y_{part}"
        return labeled(images[part], labels[part], num_classes=len(classes), where=where)

    train, test = (pair(part) if part in parts else None for part in ("train", "test"))
    return from_files(str(path), classes, train, test)


def _load(path: Path) -> tuple[dict[str, NDArray[Any]], list[str]]:
    """Read the arrays of known names, and name all that are there."""
    with (
        parsing(path, "not an .npz archive of plain arrays"),
        open_regular(path, memory_limit()) as stream,
        warnings.catch_warnings(),
    ):
        # numpy repairs headers that Python 2 has written, and warns.
        warnings.simplefilter("ignore")
        archive = np.load(stream, allow_pickle=False)
        if isinstance(archive, np.ndarray):
            raise UserError(f"{path}: a single array, expected an .npz archive of four")
        known = [name for name in _NAMES if name in archive.files]
        sizes = {member.filename: member.file_size for member in archive.zip.infolist()}
        check_memory(sum(sizes.get(f"{name}.npy", sizes.get(name, 0)) for name in known), path)
        arrays = {name: archive[name] for name in known}
        if strange := [name for name in known if not isinstance(arrays[name], np.ndarray)]:
            raise ValueError(f"{strange[0]} is no array")
        return arrays, sorted(archive.files)


def _images(pixels: NDArray[Any], where: str) -> Pixels:
    """Bring images to (N, channels, height, width)."""
    return np.ascontiguousarray(in_layout(pixels, where))


def in_layout(pixels: NDArray[Any], where: str) -> Pixels:
    """Return a view of images of shape (N, channels, height, width).

    Args:
        pixels: an array in one of the layouts that `read` takes
        where: the file, for messages

    Raises:
        UserError: it is not of bytes, or of another shape
    """
    if pixels.dtype != np.uint8:
        raise UserError(f"{where}: got {pixels.dtype}, expected uint8 with pixels from 0 to 255")
    if pixels.ndim == 3:
        pixels = pixels[:, None]
    is_first, is_last = (pixels.ndim == 4 and pixels.shape[axis] in _CHANNELS for axis in (1, -1))
    if is_first == is_last or pixels.size == 0:
        raise UserError(
            f"{where}: got shape {pixels.shape}, expected (N, height, width), (N, height, width, "
            "channels) or (N, channels, height, width) with 1 or 3 channels"
        )
    return pixels if is_first else pixels.transpose(0, 3, 1, 2)


def whole_numbers(labels: NDArray[Any], where: str) -> NDArray[Any]:
    """Return labels as a vector of integers.

    Raises:
        UserError: they are not
    """
    is_column = labels.ndim == 2 and labels.shape[1] == 1
    if labels.dtype.kind not in "iu" or not (labels.ndim == 1 or is_column):
        raise UserError(f"{where}: got {labels.dtype} of shape {labels.shape}, expected N whole numbers")
    return labels.reshape(-1)


def classes_of(named: NDArray[Any] | None, labels: list[NDArray[Any]], path: Path) -> tuple[str, ...]:
    """Return the names of classes, or their numbers where they have none.

    Raises:
        UserError: the names are not text
    """
    if named is None:
        count = 1 + max((int(part.max()) for part in labels if len(part)), default=0)
        return class_names(map(str, range(count)), str(path))
    if named.dtype.kind not in "USiu":
        raise UserError(f"{path}: classes: got {named.dtype}, expected strings")
    with parsing(path, "classes cannot be read"):
        return class_names(map(str, named.reshape(-1)), str(path))
