"""Hugging Face datasets on disk, as `Dataset.save_to_disk` writes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from soar.data.dataset import Dataset, Split, class_names, from_files, labeled_stored
from soar.data.decoding import KEPT, Framing
from soar.data.encoded import Encoded
from soar.data.files import parsing
from soar.errors import UserError

_TESTS = ("test", "validation")


class Table(Encoded):
    """The column of images of one split, left as encoded bytes in its Arrow files."""

    def __init__(self, table: Any, column: str, where: str, framing: Framing) -> None:
        self._table, self._column, self._where = table, column, where
        super().__init__(len(table), framing)

    def content(self, row: int) -> bytes:
        """Return the bytes of one image."""
        with parsing(self.where(row), "cannot be read"):
            image = self._table[row][self._column]
            found: bytes = image["bytes"] if image["bytes"] is not None else Path(image["path"]).read_bytes()
        return found

    def where(self, row: int) -> str:
        """Return what to call an image in messages."""
        return f"{self._where}: row {row}"


def read(folder: Path, framing: Framing = KEPT) -> Dataset:
    """Read the splits `train` and `test` (or `validation`) of a `DatasetDict`, or one split to evaluate on.

    The image column is the only one of type `Image`, and the classes the only `ClassLabel`.

    Args:
        folder: what `save_to_disk` has written
        framing: the size that images are brought to; without it all of them must have one size

    Raises:
        UserError: the library is missing, or the folder holds something else
    """
    try:
        import datasets
    except ImportError:
        raise UserError(
            "datasets: Hugging Face's library is not installed; run `pip install 'soar-robust[datasets]'`"
        ) from None
    with parsing(folder, "not a folder of Hugging Face's save_to_disk"):
        found = datasets.load_from_disk(str(folder))
    splits = found if isinstance(found, datasets.DatasetDict) else {"test": found}
    name = next((one for one in _TESTS if one in splits), None)
    if name is None:
        raise UserError(
            f"{folder}: has the splits {', '.join(splits)}; expected test or validation among them"
        )
    features = splits[name].features
    image = _only(features, datasets.Image, folder)
    label = _only(features, datasets.ClassLabel, folder)
    names = class_names(features[label].names, str(folder))

    def part(split: str) -> Split:
        where = f"{folder} ({split})"
        with parsing(where, "has other columns than the test split"):
            table = splits[split].cast_column(image, datasets.Image(decode=False))
            labels = np.asarray(table[label])
        images = Table(table.select_columns([image]), image, where, framing)
        return labeled_stored(images, labels, num_classes=len(names), where=where)

    return from_files(str(folder), names, part("train") if "train" in splits else None, part(name))


def _only(features: Any, kind: type, folder: Path) -> str:
    found: list[str] = [name for name, feature in features.items() if isinstance(feature, kind)]
    if len(found) != 1:
        raise UserError(
            f"{folder}: has the columns {', '.join(features)}; expected exactly one of type"
            f" {kind.__name__}, got {len(found)}"
        )
    return found[0]
