"""Download one file over HTTP, continuing where an earlier attempt stopped.

Only http and https are used, wherever a redirect may lead.
"""

from __future__ import annotations

import math
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import urljoin, urlsplit
from urllib.request import (
    HTTPDefaultErrorHandler,
    HTTPErrorProcessor,
    HTTPHandler,
    HTTPSHandler,
    OpenerDirector,
    ProxyHandler,
    Request,
)

from soar.data.files import CHUNK, parsing, reason
from soar.errors import UserError
from soar.progress import Mode, Progress

_PARTIAL_CONTENT = 206
_TIMEOUT_SECONDS = 30.0
_MOST_REDIRECTS = 10
_REDIRECTS = (301, 302, 303, 307, 308)
_RANGE_NOT_SATISFIABLE = 416
_SCHEMES = ("http", "https")


def download(url: str, part: Path, limit: int, mode: Mode = "quiet") -> None:
    """Fetch `url` into `part`, which stays when the connection breaks and is continued next time.

    The caller checks the contents: the file on the server may have changed since the first attempt.

    Args:
        url: what to fetch
        part: the unfinished file; one that is too large, a link or no regular file is removed
        limit: how many bytes it may have; a download that has more is given up and removed
        mode: how progress is shown

    Raises:
        UserError: the server cannot be reached, refuses, sends too much, or closes before the end
        OSError: `part` cannot be written
    """
    if part.is_symlink() or not part.is_file() or part.stat().st_size > limit:
        part.unlink(missing_ok=True)
    have = part.stat().st_size if part.exists() else 0
    response = request(url, have)
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
            part.open("ab") as stream,
            Progress(
                None if end is None else _chunks(end), part.stem, mode, done=_chunks(have), unit="MiB"
            ) as progress,
        ):
            stream.truncate(have)
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


def check_url(url: str) -> None:
    """Check that an address is one of the web.

    Raises:
        UserError: another scheme, no host, an impossible port, or characters that no address has
    """
    if not (url.isascii() and url.isprintable()) or " " in url:
        raise UserError(
            f"{url}: not an address, which has no spaces and only ASCII characters; write others as %20"
        )
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        raise UserError(f"{url}: not an address ({reason(error)})") from None
    if parts.scheme not in _SCHEMES:
        raise UserError(f"{url}: got an address of kind {parts.scheme}, allowed are {' and '.join(_SCHEMES)}")
    if not parts.hostname:
        raise UserError(f"{url}: not an address, it names no host")


def request(url: str, begin: int) -> HTTPResponse | None:
    """Request a file from some byte on.

    Redirects are followed here because urllib's own handler would follow one to ftp, and would read the page
    that comes with it into memory whatever its length.

    Args:
        url: the file
        begin: how many bytes to skip

    Returns:
        The open response; None where the file has no bytes beyond `begin`.

    Raises:
        UserError: the server cannot be reached, refuses, or redirects to elsewhere than the web
    """
    headers = {"User-Agent": "soar"} | ({"Range": f"bytes={begin}-"} if begin else {})
    for _ in range(_MOST_REDIRECTS):
        check_url(url)
        try:
            response = _opener().open(Request(url, headers=headers), timeout=_TIMEOUT_SECONDS)
            assert isinstance(response, HTTPResponse)
            return response
        except HTTPError as error:
            error.close()
            if error.code == _RANGE_NOT_SATISFIABLE and begin:
                return None
            target = error.headers.get("Location")
            if error.code not in _REDIRECTS or target is None:
                why = reason(ValueError(error.reason))
                raise UserError(f"{url}: the server answers {error.code} {why}") from None
            with parsing(url, "redirects to something that is not an address"):
                url = urljoin(url, target)
        except (OSError, HTTPException, ValueError) as error:
            cause = getattr(error, "reason", error)
            said = reason(cause if isinstance(cause, Exception) else ValueError(cause))
            raise UserError(f"{url}: not reachable ({said})") from None
    raise UserError(f"{url}: more than {_MOST_REDIRECTS} redirects")


def _opener() -> OpenerDirector:
    """Return an opener without file, ftp and redirect handlers."""
    opener = OpenerDirector()
    for handler in (ProxyHandler, HTTPHandler, HTTPSHandler, HTTPDefaultErrorHandler, HTTPErrorProcessor):
        opener.add_handler(handler())
    return opener
