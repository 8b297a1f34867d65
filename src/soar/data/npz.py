"""Images in one numpy archive: `x_train`, `y_train`, `x_test`, `y_test`."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from soar.data.source import Examples, Pixels, Source, examples, no_examples
from soar.errors import UserError

_CHANNELS = (1, 3)


def read(path: Path) -> Source:
    """Read an .npz archive; nothing in it is ever unpickled.

    Images are uint8 of shape (N, height, width), (N, height, width, channels) or
    (N, channels, height, width) with 1 or 3 channels; labels are whole numbers from 0. The training
    arrays may both be left out where a model is only evaluated. An optional array `classes` of
    strings names the classes.

    Args:
        path: the archive

    Raises:
        UserError: the file is not such an archive
    """
    arrays = _load(path)
    has_train = "x_train" in arrays or "y_train" in arrays
    parts = ("train", "test") if has_train else ("test",)
    images = {part: _images(_get(arrays, f"x_{part}", path), f"{path}: x_{part}") for part in parts}
    labels = {part: _labels(_get(arrays, f"y_{part}", path), f"{path}: y_{part}") for part in parts}
    shape = images["test"].shape[1:]
    if has_train and images["train"].shape[1:] != shape:
        raise UserError(f"{path}: x_train has images of shape {images['train'].shape[1:]}, x_test of {shape}")
    classes = _classes(arrays, np.concatenate(list(labels.values())))

    def pair(part: str) -> Examples:
        where = f"{path}: y_{part}"
        return examples(images[part], labels[part], num_classes=len(classes), where=where)

    channels, height, width = shape
    train = pair("train") if has_train else no_examples((channels, height, width))
    return Source(classes, train, pair("test"))


def _load(path: Path) -> dict[str, NDArray[Any]]:
    try:
        with path.open("rb") as stream:
            archive = np.load(stream, allow_pickle=False)
            if isinstance(archive, np.ndarray):
                raise UserError(f"{path}: a single array, expected an .npz archive of four")
            return dict(archive)
    except (ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        if isinstance(error, UserError):
            raise
        raise UserError(f"{path}: not an .npz archive of plain arrays ({error})") from None


def _get(arrays: dict[str, NDArray[Any]], name: str, path: Path) -> NDArray[Any]:
    if name not in arrays:
        held = ", ".join(sorted(arrays)) or "nothing"
        raise UserError(
            f"{path}: array '{name}' is missing; it holds {held}, expected x_train, y_train, x_test, y_test"
        )
    return arrays[name]


def _images(pixels: NDArray[Any], where: str) -> Pixels:
    """Bring images to (N, channels, height, width)."""
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
    return np.ascontiguousarray(pixels if is_first else pixels.transpose(0, 3, 1, 2))


def _labels(labels: NDArray[Any], where: str) -> NDArray[Any]:
    is_column = labels.ndim == 2 and labels.shape[1] == 1
    if labels.dtype.kind not in "iu" or not (labels.ndim == 1 or is_column):
        raise UserError(f"{where}: got {labels.dtype} of shape {labels.shape}, expected N whole numbers")
    return labels.reshape(-1)


def _classes(arrays: dict[str, NDArray[Any]], labels: NDArray[Any]) -> tuple[str, ...]:
    if "classes" in arrays:
        return tuple(str(name) for name in arrays["classes"].reshape(-1))
    return tuple(str(label) for label in range(int(labels.max()) + 1))
