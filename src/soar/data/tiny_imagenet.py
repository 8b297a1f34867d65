"""Tiny ImageNet: JPEG files in folders, read out of the published archive without unpacking it."""

from __future__ import annotations

import io
from pathlib import Path
from zipfile import ZipFile

import numpy as np

from soar.data.dataset import Dataset, class_names, from_files, labeled
from soar.data.files import check_memory, parsing
from soar.data.stored import Pixels
from soar.data.unverified import contents_of
from soar.errors import UserError

_INSIDE = "tiny-imagenet-200"
_SIDE = 64
# Of a file of text or of one image, both a hundred times smaller.
_LARGEST = 1 << 24


def read(folder: Path) -> Dataset:
    """Read `train/<id>/images/*.JPEG` and, as test set, the labeled `val/images/*.JPEG`.

    The images of `test/` have no published labels. Classes are in the order of their ids, as folders are.

    Args:
        folder: where `tiny-imagenet-200.zip` is

    Raises:
        UserError: the archive is missing, or does not have the published contents
    """
    (contents,) = contents_of("tiny-imagenet", folder)
    where = f"{folder / _INSIDE}.zip"
    with parsing(where, "not the archive of Tiny ImageNet"), ZipFile(io.BytesIO(contents)) as archive:
        ids = sorted(_lines(archive, "wnids.txt"))
        words = dict(line.split("\t", 1) for line in _lines(archive, "words.txt"))
        names = class_names((words[one].split(",")[0] for one in ids), where)
        rows = [line.split("\t")[:2] for line in _lines(archive, "val/val_annotations.txt")]
        test = {f"{_INSIDE}/val/images/{name}": label for name, label in rows}
        train = {
            name: place[2]
            for name in sorted(archive.namelist())
            if (place := name.split("/"))[1:2] == ["train"] and name.endswith(".JPEG")
        }
        check_memory(2 * 3 * _SIDE**2 * (len(train) + len(test)), where)
        numbers = {one: number for number, one in enumerate(ids)}
        parts = [
            labeled(
                _images(archive, list(part)),
                np.array([numbers[label] for label in part.values()]),
                num_classes=len(ids),
                where=where,
            )
            for part in (train, test)
        ]
    return from_files(str(folder), names, *parts)


def _lines(archive: ZipFile, name: str) -> list[str]:
    return _member(archive, f"{_INSIDE}/{name}").decode().splitlines()


def _member(archive: ZipFile, name: str) -> bytes:
    with archive.open(name) as stream:
        return stream.read(_LARGEST)


def _images(archive: ZipFile, names: list[str]) -> Pixels:
    from PIL import Image

    made = np.empty((len(names), 3, _SIDE, _SIDE), np.uint8)
    for place, name in enumerate(names):
        with Image.open(io.BytesIO(_member(archive, name)), formats=["JPEG"]) as picture:
            if picture.size != (_SIDE, _SIDE):
                raise UserError(f"{name}: {picture.size[0]} x {picture.size[1]} pixels, expected 64 x 64")
            # Some are gray.
            made[place] = np.asarray(picture.convert("RGB")).transpose(2, 0, 1)
    return made
