"""A folder of pictures: one sub-folder a class."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from soar.data.source import Examples, Pixels, Source, examples, no_examples
from soar.errors import UserError

_SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff")
_GREY = ("1", "L", "LA")
_COLOUR = ("P", "RGB", "RGBA", "CMYK", "YCbCr")
_TEST_SHARE = 5

Listing = dict[str, list[Path]]


def read(folder: Path) -> Source:
    """Read `train/<class>/*` and `test/<class>/*`, or class folders without that division.

    Where the folder holds class folders directly, a fixed fifth of every class becomes the test
    set. It is chosen by the names of the files, so it is the same for every seed and hardly changes
    when pictures are added. A folder with `test` but without `train` serves for evaluation only.
    All pictures have one size; they are read as grey where all of them are grey, else as RGB.

    Args:
        folder: the folder

    Raises:
        UserError: no classes, an empty class, a picture that cannot be read or has another size
    """
    if not folder.is_dir():
        raise UserError(f"folder:{folder}: there is no such folder")
    train, test = _list_parts(folder)
    classes = tuple(train or test)
    for name in test:
        if name not in classes:
            raise UserError(f"{folder}: class '{name}' is in test but not in train")
    paths = [path for part in (train, test) for files in part.values() for path in files]
    images = _read_images(paths)
    labels = np.array([classes.index(name) for part in (train, test) for name in part for _ in part[name]])
    count = sum(len(files) for files in train.values())

    def part(rows: slice) -> Examples:
        where = str(folder)
        return examples(images[rows], labels[rows], num_classes=len(classes), where=where)

    _, channels, height, width = images.shape
    learn = part(slice(count)) if train else no_examples((channels, height, width))
    return Source(classes, learn, part(slice(count, None)))


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
        raise UserError(f"{folder}: has no class folders, expected <class>/<picture>.png")
    return classes


def _list_pictures(folder: Path) -> list[Path]:
    files = sorted(path for path in folder.iterdir() if path.suffix.lower() in _SUFFIXES)
    files = [path for path in files if path.name[0] != "."]
    if not files:
        raise UserError(f"{folder}: the class folder holds no pictures, expected {', '.join(_SUFFIXES)}")
    return files


def _set_apart(classes: Listing) -> tuple[Listing, Listing]:
    """Move the fifth of every class whose names hash lowest to the test set."""
    train, test = {}, {}
    for name, files in classes.items():
        if len(files) < 2:
            raise UserError(f"{files[0].parent}: got 1 picture, expected at least 2 to set a test set apart")
        by_hash = sorted(files, key=_name_hash)
        count = max(1, len(files) // _TEST_SHARE)
        test[name], train[name] = sorted(by_hash[:count]), sorted(by_hash[count:])
    return train, test


def _name_hash(path: Path) -> bytes:
    return hashlib.sha256(f"{path.parent.name}/{path.name}".encode()).digest()


def _read_images(paths: list[Path]) -> Pixels:
    pictures = [_read_picture(path) for path in paths]
    for path, picture in zip(paths, pictures, strict=True):
        if picture.shape[:2] != pictures[0].shape[:2]:
            raise UserError(
                f"{path}: {_size(picture)} pixels, but {paths[0]} has {_size(pictures[0])}; "
                "expected pictures of one size"
            )
    if all(picture.ndim == 2 for picture in pictures):
        return np.stack(pictures)[:, None]
    return np.ascontiguousarray(np.stack(list(_as_colour(pictures))).transpose(0, 3, 1, 2))


def _as_colour(pictures: Iterable[Pixels]) -> Iterable[Pixels]:
    for picture in pictures:
        yield picture if picture.ndim == 3 else np.repeat(picture[..., None], 3, axis=2)


def _read_picture(path: Path) -> Pixels:
    """Read one picture: (height, width) where it is grey, else (height, width, 3)."""
    from PIL import Image

    try:
        with Image.open(path) as picture:
            if picture.mode not in (*_GREY, *_COLOUR):
                raise UserError(f"{path}: pixels of kind '{picture.mode}', expected 8 bits a channel")
            return np.array(picture.convert("L" if picture.mode in _GREY else "RGB"))
    except (OSError, SyntaxError, Image.DecompressionBombError) as error:
        raise UserError(f"{path}: cannot be read as a picture ({error})") from None


def _size(picture: NDArray[np.uint8]) -> str:
    return f"{picture.shape[1]} x {picture.shape[0]}"
