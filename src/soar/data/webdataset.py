"""WebDataset shards: tar files of images and their classes, read at any place in any order."""

from __future__ import annotations

import tarfile
from pathlib import Path
from typing import NamedTuple

import numpy as np

from soar.data.dataset import Dataset, Split, class_names, from_files, labeled_stored
from soar.data.decoding import KEPT, LARGEST_FILE, SUFFIXES, Framing
from soar.data.encoded import Encoded
from soar.data.files import parsing
from soar.errors import UserError

_LARGEST_LABEL = 200
_NAMES = "classes.txt"


class Place(NamedTuple):
    """Where the bytes of an image are, and what its class is called."""

    shard: Path
    name: str
    offset: int
    size: int
    label: str


class Shards(Encoded):
    """Images in tar files."""

    def __init__(self, places: list[Place], framing: Framing) -> None:
        self._places = places
        super().__init__(len(places), framing)

    def content(self, row: int) -> bytes:
        """Return the bytes of one image."""
        place = self._places[row]
        with parsing(place.shard, "cannot be read"), place.shard.open("rb") as stream:
            stream.seek(place.offset)
            return stream.read(place.size)

    def where(self, row: int) -> str:
        """Return what to call an image in messages."""
        return f"{self._places[row].shard}: {self._places[row].name}"


def read(folder: Path, framing: Framing = KEPT) -> Dataset:
    """Read `train*.tar` and `test*.tar` (or `val*.tar`), uncompressed, with KEY.jpg beside KEY.cls.

    The shards are indexed once, by the headers of their members; then any image is read from its place, so
    that the order of an epoch can be any, and the same after an interruption. A class is a number, or a name;
    a file `classes.txt` in the folder, one name a line, names numbered classes.

    Args:
        folder: the folder
        framing: the size that images are brought to; without it all of them must have one size

    Raises:
        UserError: no shards, an image without a class, an image that cannot be read or has another size
    """
    if not folder.is_dir():
        raise UserError(
            f"webdataset:{folder}: there is no such folder, expected one with train*.tar, test*.tar"
        )
    train = _index(sorted(folder.glob("train*.tar")))
    test = _index(sorted([*folder.glob("test*.tar"), *folder.glob("val*.tar")]))
    if not test:
        raise UserError(f"{folder}: has no images in test*.tar or val*.tar, expected some to evaluate on")
    names, numbers = _numbered([*train, *test], folder)

    def part(places: list[Place]) -> Split:
        labels = np.array([numbers[place.label] for place in places])
        images = Shards(places, framing)
        return labeled_stored(images, labels, num_classes=len(names), where=str(folder))

    return from_files(str(folder), names, part(train) if train else None, part(test))


def _index(shards: list[Path]) -> list[Place]:
    """List the images of all shards, in their order."""
    found: list[Place] = []
    for shard in shards:
        with parsing(shard, "not an uncompressed tar file"), tarfile.open(shard, "r:") as archive:
            images: dict[str, tuple[str, int, int]] = {}
            labels: dict[str, str] = {}
            for member in archive:
                folder, _, name = member.name.rpartition("/")
                key, _, suffix = name.partition(".")
                key = f"{folder}/{key}"
                if f".{suffix.lower()}" in SUFFIXES and member.isreg() and member.size <= LARGEST_FILE:
                    images[key] = (member.name, member.offset_data, member.size)
                elif suffix == "cls" and member.isreg() and member.size <= _LARGEST_LABEL:
                    stream = archive.extractfile(member)
                    labels[key] = stream.read().decode().strip() if stream else ""
        for key, (name, offset, size) in images.items():
            if not labels.get(key):
                raise UserError(f"{shard}: {name} has no class, expected a member {key.lstrip('/')}.cls")
            found.append(Place(shard, name, offset, size, labels[key]))
    return found


def _numbered(places: list[Place], folder: Path) -> tuple[tuple[str, ...], dict[str, int]]:
    """Return the names of the classes, and the number of every label."""
    labels = sorted({place.label for place in places})
    if not all(label.isascii() and label.isdigit() for label in labels):
        return class_names(labels, str(folder)), {label: number for number, label in enumerate(labels)}
    numbers = {label: int(label) for label in labels}
    listed = folder / _NAMES
    if listed.is_file():
        with parsing(listed, "not a text file"):
            return class_names(listed.read_text(encoding="utf-8").split("\n"), str(listed)), numbers
    return class_names(map(str, range(max(numbers.values()) + 1)), str(folder)), numbers
