"""Keep exhibits that took time to compute, so that a second report is immediate."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from soar.errors import FileError, UserError
from soar.evaluation.files import read_json, write_json

T = TypeVar("T")
KIND = "exhibit"
FORMAT = 1


def digest(text: str) -> str:
    """Return a short name of a text.

    >>> digest("quick")
    '0af2c6211145fa35'
    """
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


class Cache:
    """A folder with one JSON file an exhibit; what is foreign, damaged or of other weights is not used.

    Args:
        folder: where the files are
        fingerprint: of the weights and of all that decides what an exhibit shows
        say: takes a line for the reader
    """

    def __init__(self, folder: Path, fingerprint: str, say: Callable[[str], None] = print) -> None:
        self.folder, self._fingerprint, self._say = folder, fingerprint, say

    def kept(self, name: str, kind: type[T], compute: Callable[[], T], *, about: str = "") -> T:
        """Return an exhibit from the folder, or compute it and keep it.

        Args:
            name: of the exhibit and its file
            kind: what it is made of: dataclasses, tuples and plain values
            compute: makes it
            about: what else decides what it shows, as text
        """
        found = self.load(name, kind, about=about)
        if found is None:
            found = compute()
            self.save(name, found, about=about)
        return found

    def load(self, name: str, kind: type[T], *, about: str = "") -> T | None:
        """Read an exhibit; None where there is none that can be used."""
        path = self.folder / f"{name}.json"

        def make(stored: dict[str, Any]) -> T | None:
            if (stored["fingerprint"], stored["about"]) != (self._fingerprint, digest(about)):
                return None
            if stored["sum"] != digest(json.dumps(stored["content"])):
                raise ValueError("its content has changed since it was written")
            return msgspec.convert(stored["content"], kind)

        if not path.exists():
            return None
        try:
            return read_json(path, kind=KIND, version=FORMAT, make=make)
        except (UserError, msgspec.ValidationError) as error:
            self._say(f"{error}; it is made again")
            return None

    def save(self, name: str, content: object, *, about: str = "") -> None:
        """Write an exhibit, whole or not at all; a report is also made where nothing can be kept."""
        plain = msgspec.to_builtins(content)
        stored = {
            "format": FORMAT,
            "kind": KIND,
            "fingerprint": self._fingerprint,
            "about": digest(about),
            "sum": digest(json.dumps(plain)),
            "content": plain,
        }
        try:
            write_json(stored, self.folder / f"{name}.json")
        except FileError as error:
            self._say(f"{error}; it is made again for the next report")
