"""What an interrupted evaluation has found so far, so that no attack is run twice."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from types import TracebackType
from typing import IO, NamedTuple, Self

import torch
from torch import Tensor, nn

from soar.attacks import Outcomes


class Row(NamedTuple):
    """What a line holds of one example: the numbers of `Outcomes`."""

    robust: int
    forward: int
    backward: int
    said: int


def fingerprint(model: nn.Module, description: str) -> str:
    """Give a short name of everything that decides outcomes: the weights and a description of the rest.

    Args:
        model: its parameters and buffers count, its code does not
        description: attacks, threat, seed and data as text
    """
    digest = hashlib.blake2b(description.encode(), digest_size=16)
    for name, value in sorted(model.state_dict().items()):
        digest.update(name.encode())
        digest.update(value.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


class Journal:
    """A file that gets a line for every example an attack has settled.

    The lines of any number of processes are found again by the fingerprint, in any later number of
    processes. A line that was cut by a crash, or that an older version wrote, is passed over. The file is
    made with its first line.

    Args:
        path: where to write; files beside it that belong to other processes share its stem
        fingerprint: what the outcomes belong to; lines of anything else are not used
        rank: the process that writes
    """

    def __init__(self, path: Path, fingerprint: str, rank: int = 0) -> None:
        self._path = path.with_name(f"{path.stem}.rank{rank}{path.suffix}")
        self._pattern = f"{path.stem}.rank*{path.suffix}"
        self._fingerprint = fingerprint
        self._file: IO[str] | None = None
        self.known: dict[str, dict[int, Row]] = {}

    def __enter__(self) -> Self:
        for file in sorted(self._path.parent.glob(self._pattern)):
            self._read(file)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def write(self, attack: str, index: Tensor, rows: list[int], outcomes: Outcomes) -> None:
        """Note the outcomes of examples that were settled just now."""
        if self._file is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self._path.open("a")
        for row in rows:
            numbers = (int(getattr(outcomes, field)[row]) for field in Row._fields)
            line = [self._fingerprint, attack, int(index[row]), *numbers]
            self._file.write(json.dumps(line) + "\n")
        self._file.flush()

    def _read(self, file: Path) -> None:
        for line in file.read_text(errors="replace").splitlines():
            try:
                owner, attack, index, *numbers = json.loads(line)
                row = Row(*numbers)
            except (ValueError, TypeError):
                continue
            if owner == self._fingerprint:
                self.known.setdefault(attack, {})[index] = row


def remove_journals(path: Path) -> None:
    """Remove what all processes wrote, once it is part of a saved result.

    Args:
        path: the name that the journals were made with
    """
    for file in path.parent.glob(f"{path.stem}.rank*{path.suffix}"):
        file.unlink()
