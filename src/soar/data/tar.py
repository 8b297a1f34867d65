"""Extract files from a tar archive without trusting it.

The standard library's reader keeps every member in memory and reads extended headers of any length. Here a
member is one header of 512 bytes and its contents, and the size of everything else is limited.
"""

from __future__ import annotations

import tarfile
from collections.abc import Iterator, Mapping
from typing import IO

from soar.data.files import CHUNK, SLACK

_BLOCK = 512
_FILES = (tarfile.REGTYPE, tarfile.AREGTYPE)
_WITHOUT_CONTENTS = (
    tarfile.LNKTYPE,
    tarfile.SYMTYPE,
    tarfile.CHRTYPE,
    tarfile.BLKTYPE,
    tarfile.DIRTYPE,
    tarfile.FIFOTYPE,
)


def members(stream: IO[bytes], wanted: Mapping[str, int]) -> Iterator[tuple[str, Iterator[bytes]]]:
    """Find the regular files of these exact names, each once, and read them one after the other.

    Args:
        stream: the archive, unpacked
        wanted: the names, and how many bytes each may have; reading ends when all were found

    Yields:
        The name and the contents, to be read before the next one is asked for.

    Raises:
        tarfile.TarError: it is not an archive or cut short, one of the files has more bytes, or there is
            more than 1 MiB of something else
    """
    missing, spare = set(wanted), SLACK
    # An archive ends with blocks of zeros, or where its file does.
    while missing and (header := stream.read(_BLOCK)).strip(b"\0"):
        member = tarfile.TarInfo.frombuf(header, "utf-8", "surrogateescape")
        size = 0 if member.type in _WITHOUT_CONTENTS else member.size
        is_wanted = member.type in _FILES and member.name in missing
        spare -= _BLOCK if is_wanted else _BLOCK + size
        if is_wanted and size > wanted[member.name]:
            raise tarfile.ReadError(
                f"{member.name} has {size} bytes, allowed are at most {wanted[member.name]}"
            )
        if size < 0 or spare < 0:
            raise tarfile.ReadError(f"holds more than {SLACK} bytes besides the files that are wanted")
        pieces = _contents(stream, size)
        if is_wanted:
            missing.discard(member.name)
            yield member.name, pieces
        for _ in pieces:
            pass
        _read(stream, -size % _BLOCK)


def _contents(stream: IO[bytes], size: int) -> Iterator[bytes]:
    while size > 0:
        piece = _read(stream, min(size, CHUNK))
        size -= len(piece)
        yield piece


def _read(stream: IO[bytes], size: int) -> bytes:
    piece = stream.read(size)
    if len(piece) < size:
        raise tarfile.ReadError("unexpected end of data")
    return piece
