"""Ask web servers for files: http and https only, wherever a redirect may lead."""

from __future__ import annotations

from http.client import HTTPException, HTTPResponse
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

from soar.data.reading import reason
from soar.errors import UserError

_TIMEOUT_SECONDS = 30.0
_MOST_REDIRECTS = 10
_REDIRECTS = (301, 302, 303, 307, 308)
_RANGE_NOT_SATISFIABLE = 416
_SCHEMES = ("http", "https")


def check_url(url: str) -> None:
    """Check that an address can be asked for and is on the web.

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
    """Ask for a file from some byte on.

    Redirects are followed here because urllib's own handler would follow one to ftp, and would read the page
    that comes with it into memory whatever its length.

    Args:
        url: the file
        begin: how many bytes to leave out

    Returns:
        The open answer; None where the file has no bytes beyond `begin`.

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
            url = _redirected(url, error)
        except (OSError, HTTPException, ValueError) as error:
            raise _unreachable(url, error) from None
    raise UserError(f"{url}: more than {_MOST_REDIRECTS} redirects")


def _redirected(url: str, error: HTTPError) -> str:
    target = error.headers.get("Location")
    if error.code not in _REDIRECTS or target is None:
        raise UserError(
            f"{url}: the server answers {error.code} {reason(ValueError(error.reason))}"
        ) from None
    try:
        return urljoin(url, target)
    except ValueError as fault:
        raise UserError(f"{url}: redirects to what is not an address ({reason(fault)})") from None


def _unreachable(url: str, error: Exception) -> UserError:
    cause = getattr(error, "reason", error)
    said = cause if isinstance(cause, Exception) else ValueError(cause)
    return UserError(f"{url}: not reachable ({reason(said)})")


def _opener() -> OpenerDirector:
    """Make an opener that knows no files, no ftp and no redirects."""
    opener = OpenerDirector()
    for handler in (ProxyHandler, HTTPHandler, HTTPSHandler, HTTPDefaultErrorHandler, HTTPErrorProcessor):
        opener.add_handler(handler())
    return opener
