"""A PyTorch dataset of one's own, made by a function of any package."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from soar.data.dataset import Dataset, Split, class_names, from_files, labeled_stored
from soar.data.files import parsing
from soar.data.stored import Pixels, Rows, StoredImages
from soar.errors import UserError
from soar.imports import imported
from soar.imports import where as origin

_LABELS = ("targets", "labels", "y")
_ROUNDING = 1e-3
_EXPECTED = "expected a uint8 array or tensor, a PIL image, or floats that are bytes divided by 255"


class Items(StoredImages):
    """The images of a map-style dataset, whose items are pairs (image, label)."""

    def __init__(self, items: Any, where: str) -> None:
        self._items, self._where = items, where
        super().__init__((len(items), *self._pixels(0).shape))

    def read(self, rows: Rows) -> Pixels:
        """Return some images, in the order given."""
        found = np.empty((len(rows), *self.shape[1:]), np.uint8)
        for place, row in enumerate(rows.tolist()):
            pixels = self._pixels(row)
            if pixels.shape != self.shape[1:]:
                raise UserError(
                    f"{self._where}: item {row} has shape {pixels.shape}, item 0 {self.shape[1:]}; expected"
                    " one size"
                )
            found[place] = pixels
        return found

    def _pixels(self, row: int) -> Pixels:
        where = f"{self._where}: item {row}"
        with parsing(where, "cannot be read"):
            image = self._items[row][0]
            array = np.asarray(image)
        return as_bytes(array, where, is_first=hasattr(image, "dim"))


def as_bytes(image: NDArray[Any], where: str, *, is_first: bool) -> Pixels:
    """Return an image as bytes of shape (channels, height, width).

    Args:
        image: bytes, or floats that are bytes divided by 255
        where: what to call it in messages
        is_first: whether channels come first, as in a tensor; in a PIL image or an array they come last

    Raises:
        UserError: if it is anything else, such as normalized

    >>> as_bytes(np.array([[[0.0, 1.0]]]), "here", is_first=True)
    array([[[  0, 255]]], dtype=uint8)
    """
    if image.ndim == 2:
        image = image[None]
    elif image.ndim == 3 and not is_first:
        image = image.transpose(2, 0, 1)
    if image.ndim != 3 or image.shape[0] not in (1, 3) or image.size == 0:
        raise UserError(
            f"{where} has shape {image.shape}, expected (channels, height, width) with 1 or 3 channels"
        )
    if image.dtype == np.uint8:
        return np.ascontiguousarray(image)
    if image.dtype.kind != "f":
        raise UserError(f"{where} is of type {image.dtype}, {_EXPECTED}")
    scaled = image * 255
    rounded = scaled.round().clip(0, 255)
    if not (np.abs(scaled - rounded) < _ROUNDING * 255).all():
        raise UserError(
            f"{where} has floats that are no bytes divided by 255, {_EXPECTED}; normalize inside the"
            " model, and augment with the fields of data"
        )
    return np.ascontiguousarray(rounded.astype(np.uint8))


def read(path: str) -> Dataset:
    """Call a function that returns map-style datasets, and read their labels.

    It returns a pair (train, test), a mapping with `test` and perhaps `train`, or one dataset to evaluate on.
    Labels are taken from an attribute `targets` or `labels`, else read item by item, once. Class names are
    taken from an attribute `classes`.

    Args:
        path: `package.module:callable`

    Raises:
        UserError: it fails, or returns something else
    """
    build = imported(path, "data")
    try:
        made = build()
    except (Exception, SystemExit) as error:  # a user's code may fail in any way
        raise UserError(f"data: {path} fails ({origin(error)})") from error
    parts = _parts(made, path)
    for part, items in parts.items():
        if not (hasattr(items, "__len__") and hasattr(items, "__getitem__")) or not len(items):
            raise UserError(
                f"data: {path} returned a {type(items).__name__} for {part}, expected a dataset with items"
                " (image, label), a length and an index"
            )
    labels = {part: _labels(items, f"{path} ({part})") for part, items in parts.items()}
    named = getattr(parts["test"], "classes", None)
    highest = max(int(one.max()) for one in labels.values())
    classes = class_names(map(str, range(highest + 1) if named is None else named), path)

    def part_of(part: str) -> Split:
        where = f"{path} ({part})"
        images = Items(parts[part], where)
        return labeled_stored(images, labels[part], num_classes=len(classes), where=where)

    return from_files(path, classes, part_of("train") if "train" in parts else None, part_of("test"))


def _parts(made: Any, path: str) -> dict[str, Any]:
    if isinstance(made, Mapping):
        found = {part: made[part] for part in ("train", "test") if part in made}
    elif isinstance(made, tuple) and len(made) == 2:
        found = dict(zip(("train", "test"), made, strict=True))
    else:
        found = {"test": made}
    if "test" not in found:
        raise UserError(
            f"data: {path} returned no dataset called test, expected train and test, or test alone"
        )
    return found


def _labels(items: Any, where: str) -> NDArray[Any]:
    given = next((getattr(items, name) for name in _LABELS if hasattr(items, name)), None)
    with parsing(where, "has labels that cannot be read"):
        if given is None:
            given = [int(items[row][1]) for row in range(len(items))]
        labels = np.asarray(given)
    if labels.dtype.kind not in "iu" or labels.ndim != 1:
        raise UserError(
            f"{where}: got labels of type {labels.dtype} and shape {labels.shape}, expected N integers"
        )
    return labels
