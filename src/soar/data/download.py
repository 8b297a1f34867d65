"""Download one file over HTTP, continuing where an earlier attempt stopped."""

from __future__ import annotations

import math
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from soar.data.files import CHUNK
from soar.errors import UserError
from soar.progress import Mode, Progress

_TIMEOUT_SECONDS = 30.0
_RANGE_NOT_SATISFIABLE = 416
_PARTIAL_CONTENT = 206


def download(url: str, part: Path, mode: Mode = "quiet") -> None:
    """Fetch `url` into `part`, which stays when the connection breaks and is continued next time.

    The caller checks the contents: a server may have changed the file since the first attempt.

    Args:
        url: what to fetch
        part: the unfinished file
        mode: how progress is shown

    Raises:
        UserError: the server cannot be reached, refuses, or closes before the end
        OSError: `part` cannot be written
    """
    have = part.stat().st_size if part.exists() else 0
    response = _request(url, have)
    if response is None:
        return
    with response:
        is_continued = response.status == _PARTIAL_CONTENT and _begins_at(response, have)
        have = have if is_continued else 0
        length = response.length
        with (
            part.open("ab" if is_continued else "wb") as stream,
            Progress(
                _chunks(have + (length or 0)), part.stem, mode, done=_chunks(have), unit="MiB"
            ) as progress,
        ):
            received = 0
            while piece := _read(response, url):
                stream.write(piece)
                received += len(piece)
                progress.advance(1)
    if length is not None and received < length:
        raise UserError(
            f"{url}: the connection closed after {have + received} of {have + length} bytes; "
            "the same command continues from there"
        )


def _request(url: str, have: int) -> HTTPResponse | None:
    """Ask for what is not there yet; None where everything is."""
    headers = {"User-Agent": "soar"} | ({"Range": f"bytes={have}-"} if have else {})
    try:
        response = urlopen(Request(url, headers=headers), timeout=_TIMEOUT_SECONDS)
    except HTTPError as error:
        error.close()
        if error.code == _RANGE_NOT_SATISFIABLE and have:
            return None
        raise UserError(f"{url}: the server answers {error.code} {error.reason}") from None
    except (OSError, HTTPException, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise UserError(f"{url}: not reachable ({reason})") from None
    assert isinstance(response, HTTPResponse)
    return response


def _read(response: HTTPResponse, url: str) -> bytes:
    try:
        return response.read(CHUNK)
    except (OSError, HTTPException) as error:
        raise UserError(
            f"{url}: the connection broke ({error}); the same command continues from there"
        ) from None


def _begins_at(response: HTTPResponse, offset: int) -> bool:
    return response.headers.get("Content-Range", "").startswith(f"bytes {offset}-")


def _chunks(size: int) -> int:
    return math.ceil(size / CHUNK)
