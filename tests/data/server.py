"""A small web server on this machine that misbehaves on request."""

from __future__ import annotations

import re
import resource
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Server(ThreadingHTTPServer):
    """Serves `files` by path and records which ranges were asked for."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.files: dict[str, bytes] = {}
        self.asked: list[tuple[str, str | None]] = []
        self.cut_after: int | None = None
        self.knows_ranges = True
        self.knows_length = True
        self.shift = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        asked = self.headers.get("Range")
        self.server.asked.append((self.path, asked))
        if self.path not in self.server.files:
            self.send_error(404)
            return
        contents = self.server.files[self.path]
        begin = 0
        if asked and self.server.knows_ranges:
            begin = int(re.fullmatch(r"bytes=(\d+)-", asked)[1])  # type: ignore[index]
            if begin >= len(contents):
                self.send_error(416)
                return
            self.send_response(206)
            self.send_header(
                "Content-Range", f"bytes {begin + self.server.shift}-{len(contents) - 1}/{len(contents)}"
            )
        else:
            self.send_response(200)
        if self.server.knows_length:
            self.send_header("Content-Length", str(len(contents) - begin))
        self.end_headers()
        end = len(contents) if self.server.cut_after is None else begin + self.server.cut_after
        self.wfile.write(contents[begin:end])

    def handle(self) -> None:
        with suppress(ConnectionError):  # the client has seen enough
            super().handle()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Stay silent."""


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """Let no file grow beyond a size, as on a disk that is full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@contextmanager
def serve() -> Iterator[Server]:
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
