"""Download one file over HTTP, continuing where an earlier attempt stopped."""

from __future__ import annotations

import math
import os
import stat
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import IO

from soar.data import urls
from soar.data.reading import CHUNK, reason
from soar.errors import FileError, UserError
from soar.progress import Mode, Progress

_PARTIAL_CONTENT = 206


def download(url: str, part: Path, limit: int, mode: Mode = "quiet") -> None:
    """Fetch `url` into `part`, which stays when the connection breaks and is continued next time.

    The caller checks the contents: a server may have changed the file since the first attempt.

    Args:
        url: what to fetch
        part: the unfinished file; one that is too large, or no regular file, is removed
        limit: how many bytes it may have; a download that has more is given up and removed
        mode: how progress is shown

    Raises:
        UserError: the server cannot be reached, refuses, sends too much, or closes before the end
        OSError: `part` cannot be written
    """
    have = _usable(part, limit)
    response = urls.request(url, have)
    if response is None:
        return
    with response:
        if response.status != _PARTIAL_CONTENT:
            have = 0
        elif not response.headers.get("Content-Range", "").startswith(f"bytes {have}-"):
            raise _given_up(part, f"{url}: the server sends another part of the file than was asked for")
        end = None if response.length is None else have + response.length
        if end is not None and end > limit:
            raise _given_up(part, f"{url}: announces {end} bytes, allowed are at most {limit}")
        with (
            _append(part, have) as stream,
            Progress(_chunks(end or 0), part.stem, mode, done=_chunks(have), unit="MiB") as progress,
        ):
            while piece := _read(response, url):
                have += len(piece)
                if have > limit:
                    raise _given_up(part, f"{url}: sends more than the {limit} bytes that are allowed")
                stream.write(piece)
                progress.advance(_chunks(have) - progress.done)
    if end is not None and have < end:
        raise UserError(
            f"{url}: the connection closed after {have} of {end} bytes; the same command continues from there"
        )


def _usable(part: Path, limit: int) -> int:
    """Return how many bytes of an earlier attempt can be continued; remove what cannot."""
    try:
        found = part.lstat()
    except FileNotFoundError:
        return 0
    # A second name of the file might be one that must not change.
    if stat.S_ISREG(found.st_mode) and found.st_nlink == 1 and found.st_size <= limit:
        return found.st_size
    part.unlink()
    return 0


def _append(part: Path, begin: int) -> IO[bytes]:
    """Open the unfinished file for writing behind its first bytes, never through a link."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    stream = os.fdopen(os.open(part, flags, 0o666), "ab")
    if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
        stream.close()
        raise FileError(f"{part}: not a regular file")
    stream.truncate(begin)
    return stream


def _read(response: HTTPResponse, url: str) -> bytes:
    try:
        # Not `read`, which takes a negative length of a chunk for "everything" and keeps it in memory.
        return response.read1(CHUNK)
    except (OSError, HTTPException, ValueError) as error:
        raise UserError(
            f"{url}: the connection broke ({reason(error)}); the same command continues from there"
        ) from None


def _given_up(part: Path, message: str) -> UserError:
    part.unlink(missing_ok=True)
    return UserError(message)


def _chunks(size: int) -> int:
    return math.ceil(size / CHUNK)
