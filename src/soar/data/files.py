"""The files a data set consists of: are they there, are they whole, and how they are put in place."""

from __future__ import annotations

import hashlib
import os
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from soar import files
from soar.data.reading import chunks, open_contents
from soar.errors import UserError

State = Literal["ok", "damaged", "missing"]


@dataclass(frozen=True)
class File:
    """One file of a data set, known by the size and the md5 of its (uncompressed) contents.

    The sum guards against damage. It is md5 because that is what the publishers give.
    """

    name: str
    size: int
    md5: str


def find(folder: Path, name: str) -> Path | None:
    """Return the path of a file, plain or compressed with gzip; None where there is neither."""
    for path in (folder / name, folder / f"{name}.gz"):
        if os.path.isfile(path):  # a name that is too long is no file either
            return path
    return None


def located(folder: Path, name: str) -> Path:
    """Return the path of a file to read, plain or compressed; the plain one where there is neither."""
    return find(folder, name) or folder / name


def state(folder: Path, file: File) -> State:
    """Return whether a file is in the folder with exactly the contents that were published."""
    path = find(folder, file.name)
    if path is None:
        return "missing"
    try:
        if path.suffix != ".gz" and path.stat().st_size != file.size:
            return "damaged"
        with open_contents(path, file.size) as stream:
            for _ in checked(file, chunks(stream)):
                pass
    except (UserError, OSError, EOFError, zlib.error):
        return "damaged"
    return "ok"


def place(folder: Path, file: File, pieces: Iterable[bytes]) -> None:
    """Write a file so that it appears whole and checked, or not at all.

    Args:
        folder: where it goes
        file: its name, and the size and md5 that its contents must have
        pieces: the contents

    Raises:
        UserError: the contents are not what was published
        FileError: it cannot be written
    """
    files.write(folder / file.name, checked(file, pieces))


def checked(file: File, pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Pass contents on while they may be the published ones.

    Args:
        file: what was published
        pieces: the contents

    Raises:
        UserError: as soon as there is more than was published, or at the end for less or for another md5
    """
    digest, size = hashlib.md5(usedforsecurity=False), 0
    for piece in pieces:
        size += len(piece)
        if size > file.size:
            raise UserError(
                f"{file.name}: wrong contents, more than the {file.size} bytes that were published"
            )
        digest.update(piece)
        yield piece
    if size < file.size:
        raise UserError(f"{file.name}: wrong contents, {size} of the {file.size} bytes that were published")
    if digest.hexdigest() != file.md5:
        raise UserError(f"{file.name}: wrong contents, md5 is {digest.hexdigest()}, published is {file.md5}")
