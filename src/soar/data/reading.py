"""Read files that may hold anything: regular files only, never more than is allowed, faults in one line."""

from __future__ import annotations

import gzip
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

from soar.errors import UserError, printable, reason_of

CHUNK = 1 << 20
# What gzip and tar may add to the files that they carry: headers, blocks stored as they are, small notes.
SLACK = 1 << 20
_LONGEST_REASON = 200


def memory_limit() -> int:
    """Return how many bytes a data set may take: half of the machine's memory, because it is copied."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2


def check_memory(size: int, where: Path | str) -> None:
    """Check that so many bytes may be unpacked, before that is tried.

    Args:
        size: what a header announces
        where: the file, for the message

    Raises:
        UserError: they would take more than half of the machine's memory
    """
    if size > memory_limit():
        raise UserError(
            f"{where}: announces {size} bytes of data, allowed are {memory_limit()}, half of the memory here"
        )


def reason(error: BaseException) -> str:
    """Return what went wrong as a short line, without the place in the code.

    >>> reason(ValueError("bad", "header")), reason(MemoryError())
    ("('bad', 'header')", 'MemoryError')
    """
    text = reason_of(error) if isinstance(error, OSError) else str(error)
    return printable(" ".join(text.split()), _LONGEST_REASON) or type(error).__name__


@contextmanager
def parsing(where: Path | str, fault: str) -> Iterator[None]:
    """Turn whatever a parser of a foreign format raises into the user's error that names the file.

    Parsers raise almost any exception for a file that was made to break them, so all kinds are caught.

    Args:
        where: the file
        fault: what it is not, such as "not a readable MATLAB file"
    """
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        raise UserError(f"{where}: {fault} ({reason(error)})") from None


def open_regular(path: Path, limit: int) -> IO[bytes]:
    """Open a regular file for reading; a pipe, a device or a folder is refused instead of waited for.

    Args:
        path: the file, or a link to it
        limit: how many bytes it may have

    Raises:
        UserError: it is something else, too large, or cannot be opened
    """
    with parsing(path, "cannot be read"):
        _check_regular(os.stat(path), path, limit)
        stream = os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb")
        try:
            # The name may have come to mean something else since the first look.
            _check_regular(os.fstat(stream.fileno()), path, limit)
        except UserError:
            stream.close()
            raise
    return stream


def _check_regular(found: os.stat_result, path: Path, limit: int) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise UserError(f"{path}: not a regular file")
    if found.st_size > limit:
        raise UserError(f"{path}: {found.st_size} bytes, allowed are at most {limit}")


@contextmanager
def open_contents(path: Path, size: int) -> Iterator[IO[bytes]]:
    """Open a file that holds `size` bytes, unpacking it where its name ends in .gz."""
    is_packed = path.suffix == ".gz"
    with open_regular(path, size + SLACK if is_packed else size) as stream:
        yield cast(IO[bytes], gzip.GzipFile(fileobj=stream)) if is_packed else stream


def chunks(stream: IO[bytes]) -> Iterator[bytes]:
    """Read a stream piece by piece, so that no large file is ever whole in memory."""
    while piece := stream.read(CHUNK):
        yield piece


def read_bytes(path: Path, limit: int) -> bytes:
    """Read a file, unpacking it where its name ends in .gz.

    Args:
        path: the file
        limit: how many bytes it may hold

    Raises:
        UserError: it holds more, is not a regular file, or cannot be read or unpacked
    """
    fault = "damaged gzip file" if path.suffix == ".gz" else "cannot be read"
    pieces, size = [], 0
    with parsing(path, fault), open_contents(path, limit) as stream:
        for piece in chunks(stream):
            size += len(piece)
            if size > limit:
                raise UserError(f"{path}: unpacks to more than the {limit} bytes that it may hold")
            pieces.append(piece)
    return b"".join(pieces)
