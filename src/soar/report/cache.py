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
        path, fingerprint = self.folder / f"{name}.json", _digest(f"{self._fingerprint} {about}")

        def convert(stored: dict[str, Any]) -> T | None:
            if stored["fingerprint"] != fingerprint:
                return None
            if stored["sum"] != _digest(json.dumps(stored["content"])):
                raise ValueError("its content has changed since it was written")
            return msgspec.convert(stored["content"], kind)

        found = None
        if path.exists():
            try:
                found = read_json(path, kind=KIND, version=FORMAT, make=convert)
            except UserError as error:
                self._say(f"{error}; it is made again")
        if found is not None:
            return found
        found = compute()
        plain = msgspec.to_builtins(found)
        head = {"format": FORMAT, "kind": KIND, "fingerprint": fingerprint}
        try:
            write_json({**head, "sum": _digest(json.dumps(plain)), "content": plain}, path)
        except FileError as error:
            # A report is also made where nothing can be kept.
            self._say(f"{error}; it is made again for the next report")
        return found


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
