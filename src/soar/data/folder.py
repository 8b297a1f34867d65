"""A folder of images with one sub-folder per class."""

from __future__ import annotations

import hashlib
import io
import warnings
from pathlib import Path

import numpy as np

from soar.data.dataset import Dataset, Pixels, Split, class_names, from_files, labeled
from soar.data.files import check_memory, open_regular, parsing
from soar.errors import UserError

_SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff")
_GRAY = ("1", "L", "LA")
_COLOR = ("P", "RGB", "RGBA", "CMYK", "YCbCr")
_TEST_SHARE = 5
# By content, whatever the name: Pillow hands PostScript, which it also knows, to another program.
_FORMATS = ("PNG", "JPEG", "BMP", "GIF", "WEBP", "TIFF")
# As many as Pillow unpacks without a warning; three bytes each without compression, and as much again.
_MOST_PIXELS = 89_478_485
_LARGEST_FILE = 1 << 29

Listing = dict[str, list[Path]]


def read(folder: Path) -> Dataset:
    """Read `train/<class>/*` and `test/<class>/*`, or class folders without that division.

    Where the folder holds class folders directly, a fixed fifth of every class becomes the test
    set. It is chosen by the names of the files, so it is the same for every seed and hardly changes
    when images are added. A folder with `test` but without `train` serves for evaluation only.
    All images have one size; they are read as gray where all of them are gray, else as RGB.

    Args:
        folder: the folder

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
    images = _read_images(paths)
    labels = np.array([classes.index(name) for part in (train, test) for name in part for _ in part[name]])
    count = sum(len(files) for files in train.values())

    def part(rows: slice) -> Split:
        return labeled(images[rows], labels[rows], num_classes=len(classes), where=str(folder))

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
    files = sorted(path for path in folder.iterdir() if path.suffix.lower() in _SUFFIXES)
    files = [path for path in files if path.name[0] != "."]
    if not files:
        raise UserError(f"{folder}: the class folder holds no images, expected {', '.join(_SUFFIXES)}")
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


def _read_images(paths: list[Path]) -> Pixels:
    pictures: list[Pixels] = []
    with warnings.catch_warnings():
        # Notes about metadata, which are not used; too many pixels are refused below.
        warnings.simplefilter("ignore")
        for path in paths:
            pictures.append(_read_picture(path, pictures, paths))
    if all(picture.ndim == 2 for picture in pictures):
        return np.stack(pictures)[:, None]
    color = [one if one.ndim == 3 else np.repeat(one[..., None], 3, axis=2) for one in pictures]
    return np.ascontiguousarray(np.stack(color).transpose(0, 3, 1, 2))


def _read_picture(path: Path, before: list[Pixels], paths: list[Path]) -> Pixels:
    """Read one image: (height, width) where it is gray, else (height, width, 3).

    Its size is compared with that of the first image, and with the memory that all of them will take,
    before its pixels are unpacked.
    """
    from PIL import Image

    with (
        parsing(path, "cannot be read as an image"),
        open_regular(path, _LARGEST_FILE) as stream,
        # In memory: Pillow asks for pieces as long as the image says, and a file allocates them first.
        Image.open(io.BytesIO(stream.read()), formats=_FORMATS) as picture,
    ):
        width, height = picture.size
        if before and (height, width) != before[0].shape[:2]:
            raise UserError(
                f"{path}: {width} x {height} pixels, but {paths[0]} has {before[0].shape[1]} x "
                f"{before[0].shape[0]}; expected images of one size"
            )
        if width * height > _MOST_PIXELS:
            raise UserError(
                f"{path}: {width} x {height} pixels, allowed are at most {_MOST_PIXELS} per image"
            )
        check_memory(3 * width * height * len(paths), f"{len(paths)} images like {path}")
        if picture.mode not in (*_GRAY, *_COLOR):
            raise UserError(f"{path}: pixels of kind '{picture.mode}', expected 8 bits per channel")
        return np.array(picture.convert("L" if picture.mode in _GRAY else "RGB"))
