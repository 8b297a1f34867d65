"""The files a data set consists of: are they there, are they whole, and how they are put in place."""

from __future__ import annotations

import gzip
import hashlib
import os
import tempfile
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal, cast

from soar.errors import UserError

CHUNK = 1 << 20

State = Literal["ok", "damaged", "missing"]


@dataclass(frozen=True)
class File:
    """One file of a data set, known by the md5 of its (uncompressed) contents.

    The sum guards against damage. It is md5 because that is what the publishers give.
    """

    name: str
    size: int
    md5: str


def chunks(stream: IO[bytes]) -> Iterator[bytes]:
    """Read a stream piece by piece, so that no large file is ever whole in memory."""
    while piece := stream.read(CHUNK):
        yield piece


def find(folder: Path, name: str) -> Path | None:
    """Give the path of a file, plain or compressed with gzip; None where there is neither."""
    for path in (folder / name, folder / f"{name}.gz"):
        if os.path.isfile(path):  # a name that is too long is no file either
            return path
    return None


def open_contents(path: Path) -> IO[bytes]:
    """Open a file for reading, unpacking it where its name ends in .gz."""
    return cast(IO[bytes], gzip.open(path)) if path.suffix == ".gz" else path.open("rb")


def read_bytes(path: Path) -> bytes:
    """Read a file, unpacking it where its name ends in .gz.

    Raises:
        UserError: the file cannot be unpacked
    """
    try:
        with open_contents(path) as stream:
            return stream.read()
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise UserError(f"{path}: damaged gzip file ({error})") from None


def state(folder: Path, file: File) -> State:
    """Say whether a file is in the folder with exactly the contents that were published."""
    path = find(folder, file.name)
    if path is None:
        return "missing"
    digest = hashlib.md5(usedforsecurity=False)
    try:
        with open_contents(path) as stream:
            for piece in chunks(stream):
                digest.update(piece)
    except (EOFError, zlib.error, gzip.BadGzipFile):
        return "damaged"
    return "ok" if digest.hexdigest() == file.md5 else "damaged"


def place(folder: Path, file: File, pieces: Iterable[bytes]) -> None:
    """Write a file so that it appears whole and checked, or not at all.

    Args:
        folder: where it goes
        file: its name and the md5 its contents must have
        pieces: the contents

    Raises:
        UserError: the contents are not what was published
    """
    digest = hashlib.md5(usedforsecurity=False)
    handle, temporary = tempfile.mkstemp(dir=folder, prefix=f".{file.name}-")
    try:
        with os.fdopen(handle, "wb") as stream:
            for piece in pieces:
                digest.update(piece)
                stream.write(piece)
        check_md5(file, digest.hexdigest())
        # A temporary file is private; data may be read by whoever may read the folder.
        os.chmod(temporary, 0o644)
        os.replace(temporary, folder / file.name)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def check_md5(file: File, got: str) -> None:
    """Refuse contents that are not the published ones."""
    if got != file.md5:
        raise UserError(f"{file.name}: wrong contents, md5 is {got}, published is {file.md5}")
