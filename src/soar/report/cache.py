"""Measurements that took time, kept in the run folder so that a second report is immediate."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import msgspec

from soar import files
from soar.errors import FileError, first_line

T = TypeVar("T")


class ReportCache:
    """A folder with one JSON file per measurement; files that are damaged or of other weights are not used.

    Args:
        folder: where the files are
        fingerprint: of the weights and of everything else that decides the measurements
        say: takes a line for the reader
    """

    def __init__(self, folder: Path, fingerprint: str, say: Callable[[str], None] = print) -> None:
        self.folder, self._fingerprint, self._say = folder, fingerprint, say

    def get(self, name: str, kind: type[T], compute: Callable[[], T], *, about: str = "") -> T:
        """Return a measurement from the folder, or compute it and keep it.

        Args:
            name: name of the measurement and of its file
            kind: its type: dataclasses, tuples and plain values
            compute: measures it
            about: what else decides it, as text
        """
        path, decisive = self.folder / f"{name}.json", f"{self._fingerprint} {about}"
        fingerprint = hashlib.blake2b(decisive.encode(), digest_size=8).hexdigest()
        if path.exists():
            try:
                stored = msgspec.json.decode(path.read_bytes())
                if stored["fingerprint"] == fingerprint:
                    return msgspec.convert(stored["content"], kind)
            except (OSError, KeyError, TypeError, msgspec.MsgspecError) as error:
                self._say(f"{path}: damaged ({first_line(error)}); it is made again")
        found = compute()
        try:
            files.write(path, msgspec.json.encode({"fingerprint": fingerprint, "content": found}))
        except FileError as error:
            # A report is also made where nothing can be kept.
            self._say(f"{error}; it is made again for the next report")
        return found
