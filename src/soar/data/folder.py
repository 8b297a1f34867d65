"""A folder of images with one sub-folder per class."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np

from soar.data.dataset import Dataset, Split, class_names, from_files, labeled_stored
from soar.data.decoding import KEPT, LARGEST_FILE, SUFFIXES, Framing
from soar.data.encoded import Encoded
from soar.data.files import open_regular
from soar.errors import UserError

_TEST_SHARE = 5

Listing = dict[str, list[Path]]


class Files(Encoded):
    """Images that are a file each."""

    def __init__(self, paths: list[Path], framing: Framing) -> None:
        self._paths = paths
        super().__init__(len(paths), framing)

    def content(self, row: int) -> bytes:
        """Return the bytes of one image."""
        with open_regular(self._paths[row], LARGEST_FILE) as stream:
            return stream.read()

    def where(self, row: int) -> str:
        """Return what to call an image in messages."""
        return str(self._paths[row])


def read(folder: Path, framing: Framing = KEPT) -> Dataset:
    """Read `train/<class>/*` and `test/<class>/*`, or class folders without that division.

    Where the folder holds class folders directly, a fixed fifth of every class becomes the test
    set. It is chosen by the names of the files, so it is the same for every seed and hardly changes
    when images are added. A folder with `test` but without `train` serves for evaluation only.
    Images are read as gray where all of them are gray, else as RGB.

    Args:
        folder: the folder
        framing: the size that images are brought to; without it all of them must have one size

    Raises:
        UserError: no classes, an empty class, an image that cannot be read or has another size
    """
    if not folder.is_dir():
        raise UserError(f"folder:{folder}: there is no such folder")
    train, test = _list_parts(folder)
    classes = tuple(train or test)
    for name in test:
        if name not in classes:
            raise UserError(f"{folder}: class '{name}' is in test but not in train")
    paths = [path for part in (train, test) for files in part.values() for path in files]
    labels = np.array([classes.index(name) for part in (train, test) for name in part for _ in part[name]])
    count = sum(len(files) for files in train.values())
    images = Files(paths, framing)

    def part(rows: slice) -> Split:
        where = str(folder)
        return labeled_stored(images.at(rows), labels[rows], num_classes=len(classes), where=where)

    names = class_names(classes, str(folder))
    return from_files(str(folder), names, part(slice(count)) if train else None, part(slice(count, None)))


def _list_parts(folder: Path) -> tuple[Listing, Listing]:
    """List the files of the train and the test set by class."""
    has = {part: (folder / part).is_dir() for part in ("train", "test")}
    if has["test"]:
        train = _list_classes(folder / "train") if has["train"] else {}
        return train, _list_classes(folder / "test")
    if has["train"]:
        raise UserError(f"{folder}: has train/ but no test/, expected both")
    return _set_apart(_list_classes(folder))


def _list_classes(folder: Path) -> Listing:
    names = sorted(path.name for path in folder.iterdir() if path.is_dir())
    classes = {name: _list_pictures(folder / name) for name in names if name[0] != "."}
    if not classes:
        raise UserError(f"{folder}: has no class folders, expected <class>/<image>.png")
    return classes


def _list_pictures(folder: Path) -> list[Path]:
    files = sorted(path for path in folder.iterdir() if path.suffix.lower() in SUFFIXES)
    files = [path for path in files if path.name[0] != "."]
    if not files:
        raise UserError(f"{folder}: the class folder holds no images, expected {', '.join(SUFFIXES)}")
    return files


def _set_apart(classes: Listing) -> tuple[Listing, Listing]:
    """Move the fifth of every class whose names hash lowest to the test set."""
    train, test = {}, {}
    for name, files in classes.items():
        if len(files) < 2:
            raise UserError(f"{files[0].parent}: got 1 image, expected at least 2 to set a test set apart")
        by_hash = sorted(files, key=_name_hash)
        count = max(1, len(files) // _TEST_SHARE)
        test[name], train[name] = sorted(by_hash[:count]), sorted(by_hash[count:])
    return train, test


def _name_hash(path: Path) -> bytes:
    # A name need not be text.
    return hashlib.sha256(f"{path.parent.name}/{path.name}".encode(errors="surrogateescape")).digest()
