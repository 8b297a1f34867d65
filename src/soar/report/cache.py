"""Measurements that took time, kept in the run folder so that a second report is immediate."""

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


class Cache:
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
        found = self.load(name, kind, about=about)
        if found is None:
            found = compute()
            self.save(name, found, about=about)
        return found

    def load(self, name: str, kind: type[T], *, about: str = "") -> T | None:
        """Read a measurement; None where there is none that can be used."""
        path = self.folder / f"{name}.json"

        def convert(stored: dict[str, Any]) -> T | None:
            if (stored["fingerprint"], stored["about"]) != (self._fingerprint, _digest(about)):
                return None
            if stored["sum"] != _digest(json.dumps(stored["content"])):
                raise ValueError("its content has changed since it was written")
            return msgspec.convert(stored["content"], kind)

        if not path.exists():
            return None
        try:
            return read_json(path, kind=KIND, version=FORMAT, make=convert)
        except (UserError, msgspec.ValidationError) as error:
            self._say(f"{error}; it is made again")
            return None

    def save(self, name: str, content: object, *, about: str = "") -> None:
        """Write a measurement; a report is also made where nothing can be kept."""
        plain = msgspec.to_builtins(content)
        stored = {
            "format": FORMAT,
            "kind": KIND,
            "fingerprint": self._fingerprint,
            "about": _digest(about),
            "sum": _digest(json.dumps(plain)),
            "content": plain,
        }
        try:
            write_json(stored, self.folder / f"{name}.json")
        except FileError as error:
            self._say(f"{error}; it is made again for the next report")


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
