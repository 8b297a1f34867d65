"""Servers that were made to break their clients: what each sends for a request, as bytes on the wire."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

Respond = Callable[[socket.socket, bytes], None]
SIZE = 50_000
CONTENTS = bytes(range(250)) * (SIZE // 250)


@contextmanager
def serve_raw(respond: Respond) -> Iterator[str]:
    """Run a server that answers every connection with a function; yield its address."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer(connection: socket.socket) -> None:
            with connection, suppress(OSError):
                asked = b""
                while b"\r\n\r\n" not in asked and (piece := connection.recv(4096)):
                    asked += piece
                respond(connection, asked)

        def accept() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = listening.accept()
                    threading.Thread(target=answer, args=(connection,), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            with suppress(OSError):
                listening.shutdown(socket.SHUT_RDWR)


def head(status: str = "200 OK", **headers: object) -> bytes:
    lines = [f"HTTP/1.1 {status}", *(f"{name.replace('_', '-')}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode("latin1")


def says(contents: bytes) -> Respond:
    return lambda connection, _: connection.sendall(contents)


def endless(start: bytes, piece: bytes) -> Respond:
    def respond(connection: socket.socket, _: bytes) -> None:
        connection.sendall(start)
        while True:  # until the client closes
            connection.sendall(piece)

    return respond


def redirect(target: str, status: str = "302 Found") -> Respond:
    return says(head(status, Location=target, Content_Length=0))


def only_ranges(status: str, **headers: object) -> Respond:
    """Behave when the whole is asked for, but break off; misbehave when the rest is."""

    def respond(connection: socket.socket, asked: bytes) -> None:
        if b"range:" in asked.lower():
            connection.sendall(head(status, **headers) + CONTENTS)
        else:
            connection.sendall(head(Content_Length=SIZE) + CONTENTS[:1000])

    return respond


_PIECE = bytes(1 << 16)
_CHUNK = b"10000\r\n" + _PIECE + b"\r\n"
_BROKE = r"the connection (broke|closed)"
_MORE = "sends more than the 50000 bytes that are allowed"
_ANSWERS = "the server answers"
_UNREACHABLE = "not reachable"
_WRONG = "wrong contents"

# What is sent, the message it must get, and whether the begun file may stay.
CASES: dict[str, tuple[Respond, str, bool]] = {
    "endless body": (endless(head(), _PIECE), _MORE, False),
    "endless chunks": (endless(head(Transfer_Encoding="chunked"), _CHUNK), _MORE, False),
    "endless chunk": (endless(head(Transfer_Encoding="chunked") + b"7fffffffffff\r\n", _PIECE), _MORE, False),
    "negative chunk": (endless(head(Transfer_Encoding="chunked") + b"-1\r\n", _PIECE), _MORE, False),
    "chunk of no number": (says(head(Transfer_Encoding="chunked") + b"\x1b[2J\r\n" + _PIECE), _BROKE, True),
    "long chunk line": (says(head(Transfer_Encoding="chunked") + b"1;" + _PIECE + _PIECE), _BROKE, True),
    "truncated chunk": (says(head(Transfer_Encoding="chunked") + b"100\r\nabc"), _BROKE, True),
    "no chunk": (says(head(Transfer_Encoding="chunked")), _BROKE, True),
    "one byte too many": (says(head() + CONTENTS + b"x"), _MORE, False),
    "one byte too few": (says(head() + CONTENTS[:-1]), "49999 of the 50000 bytes", False),
    "announces 3 GB": (
        endless(head(Content_Length=3_300_000_000), _PIECE),
        "announces 3300000000 bytes",
        False,
    ),
    "announces 10**30": (says(head(Content_Length=10**30) + CONTENTS), r"announces 10+ bytes", False),
    "announces a byte more": (says(head(Content_Length=SIZE + 1) + CONTENTS), "announces 50001 bytes", False),
    "announces too few": (says(head(Content_Length=SIZE - 1) + CONTENTS), "49999 of the 50000 bytes", False),
    "closes early": (
        says(head(Content_Length=SIZE) + CONTENTS[:1000]),
        "closed after 1000 of 50000 bytes",
        True,
    ),
    "negative length": (says(head(Content_Length=-5) + CONTENTS + b"x"), _MORE, False),
    "length of no number": (says(head(Content_Length="\x1b[2J") + CONTENTS + b"x"), _MORE, False),
    "two lengths": (says(head(Content_Length="5, 6") + CONTENTS + b"x"), _MORE, False),
    "length of digits": (says(head(Content_Length="9" * 5000) + CONTENTS + b"x"), _MORE, False),
    "nothing in it": (says(head(Content_Length=0)), "0 of the 50000 bytes", False),
    "no content": (says(head("204 No Content")), "0 of the 50000 bytes", False),
    "other contents": (says(head(Content_Length=SIZE) + bytes(SIZE)), "md5 is", False),
    "packed by the server": (says(head(Content_Encoding="gzip", Content_Length=3) + b"abc"), _WRONG, False),
    "closes at once": (says(b""), _UNREACHABLE, False),
    "no HTTP": (says(b"\x1b[2Jhello\r\n\r\n"), _UNREACHABLE, False),
    "endless first line": (endless(b"", _PIECE.replace(b"\0", b"a")), _UNREACHABLE, False),
    "endless headers": (endless(head()[:-2], b"A: b\r\n" * 100), _UNREACHABLE, False),
    "endless header": (endless(head()[:-2] + b"A: ", b"b" * 1000), _UNREACHABLE, False),
    "status of no number": (says(b"HTTP/1.1 abc\r\n\r\n"), _UNREACHABLE, False),
    "status of 99999": (says(b"HTTP/1.1 99999 x\r\n\r\n"), _UNREACHABLE, False),
    "other protocol": (says(b"HTTP/9.9 200 OK\r\n\r\n"), f"({_UNREACHABLE}|{_WRONG})", False),
    "reason with escapes": (says(head("404 \x1b[2J\x1b]0;title\x07")), rf"{_ANSWERS} 404 \\x1b\[2J", False),
    "reason with other controls": (says(head("500 \x9b31m\x85\x0b")), rf"{_ANSWERS} 500 \\x9b31m", False),
    "long reason": (says(head("404 " + "a" * 60_000)), rf"{_ANSWERS} 404 a{{197}}\.\.\.", False),
    "no reason": (says(b"HTTP/1.1 404\r\n\r\n"), rf"{_ANSWERS} 404", False),
    "error with an endless page": (endless(head("500 No"), _PIECE), f"{_ANSWERS} 500 No", False),
    "wants a password": (
        says(head("401 No", WWW_Authenticate="Basic realm=\x1b[2J")),
        f"{_ANSWERS} 401",
        False,
    ),
    "too many requests": (says(head("429 Slow", Retry_After="9" * 99)), f"{_ANSWERS} 429", False),
    "range for nobody": (says(head("416 No")), f"{_ANSWERS} 416", False),
    "redirect to itself": (redirect("/train_32x32.mat"), "more than 10 redirects", False),
    "redirect to a file": (redirect("file:///etc/passwd"), "of kind file, allowed are http and https", False),
    "redirect to ftp": (redirect("ftp://127.0.0.1/x"), "of kind ftp, allowed are http and https", False),
    "redirect to data": (redirect("data:,hello"), "of kind data, allowed are http and https", False),
    "redirect to gopher": (redirect("gopher://x/1"), "of kind gopher, allowed are", False),
    "redirect to a script": (redirect("javascript:alert(1)"), "of kind javascript, allowed are", False),
    "redirect to FILE": (redirect("FILE:///etc/passwd", "301 Moved"), "of kind file, allowed are", False),
    "redirect with escapes": (
        redirect("/\x1b[2J", "307 Moved"),
        r"not an address, which has no spaces",
        False,
    ),
    "redirect with a space": (redirect("/a b", "308 Moved"), "not an address, which has no spaces", False),
    "redirect beyond ASCII": (redirect("/\xe9", "303 Other"), "not an address, which has no spaces", False),
    "redirect to no port": (redirect("http://127.0.0.1:99999/"), "not an address .Port out of range", False),
    "redirect to no host": (redirect("https:///x"), "not an address, it names no host", False),
    "redirect to a bracket": (redirect("http://[/x"), "is not an address", False),
    "redirect to nowhere": (says(head("302 Found")), f"{_ANSWERS} 302", False),
    "redirect with an endless page": (
        endless(head("302 Found", Location="/x"), _PIECE),
        "more than 10",
        False,
    ),
    "rest that is elsewhere": (
        only_ranges("206 Part", Content_Range="bytes 0-49999/50000"),
        "another part",
        False,
    ),
    "rest without a place": (only_ranges("206 Part"), "another part of the file", False),
    "rest with escapes": (
        only_ranges("206 Part", Content_Range="\x1b[2J"),
        "another part of the file",
        False,
    ),
    "rest that is too long": (only_ranges("206 Part", Content_Range="bytes 1000-"), _MORE, False),
    "nothing beyond": (only_ranges("416 Range Not Satisfiable"), "1000 of the 50000 bytes", False),
    "everything once more": (only_ranges("200 OK", Content_Length=SIZE * 2), "announces 100000 bytes", False),
}
