"""The outcomes of an evaluation so far, so that an interrupted one does not run attacks twice."""

from __future__ import annotations

import glob
import hashlib
import json
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn

from soar.attacks import Outcomes
from soar.data.stored import StoredImages
from soar.errors import reason_of

_AT_ONCE = 1024
"""rows of a tensor that are read at once"""


class Row(NamedTuple):
    """What a line holds of one example: the numbers of `Outcomes`."""

    robust: int
    forward: int
    backward: int
    predictions: int


def fingerprint(model: nn.Module, description: str, images: Tensor | StoredImages, labels: Tensor) -> str:
    """Return a digest of everything that decides outcomes: weights, data and a description of the rest.

    Args:
        model: its parameters and buffers count, its code does not
        description: attacks, threat and seed as text
        images: as they are attacked
        labels: their classes
    """
    digest = hashlib.blake2b(description.encode(), digest_size=16)
    tensors = {**model.state_dict(), "images": images, "labels": labels}
    for name, value in sorted(tensors.items()):
        digest.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
        for start in range(0, len(value) if value.ndim else 1, _AT_ONCE):
            part = value[start : start + _AT_ONCE] if value.ndim else value
            digest.update(part.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


class Journal:
    """A file that gets a line for every example an attack has settled.

    The lines of any number of processes are found again by the fingerprint, in any later number of
    processes. Every line ends in a digest of itself: one that was cut or changed is passed over, and its
    example is attacked again. The file is made with its first line. If it cannot be written, a warning says
    so and the evaluation goes on without it.

    Args:
        path: where to write; files beside it that belong to other processes share its stem
        fingerprint: what the outcomes belong to; lines of anything else are not used
        rank: the process that writes
    """

    def __init__(self, path: Path, fingerprint: str, rank: int = 0) -> None:
        self._path = path.with_name(f"{path.stem}.rank{rank}{path.suffix}")
        self._fingerprint = fingerprint
        self._has_begun = self._is_full = False
        self.known: dict[str, dict[int, Row]] = {}
        for file in _parts(path):
            self._read(file)

    def write(self, attack: str, index: Tensor, rows: list[int], outcomes: Outcomes) -> None:
        """Note the outcomes of examples that were settled just now."""
        numbers = [[int(getattr(outcomes, field)[row]) for field in Row._fields] for row in rows]
        self.note(attack, {int(index[row]): Row(*one) for row, one in zip(rows, numbers, strict=True)})

    def note(self, label: str, found: Mapping[int, Row]) -> None:
        """Note what was found about examples.

        Args:
            label: what found it, such as the label of an attack
            found: by the index of the example
        """
        if self._is_full:
            return
        lines = [_line([self._fingerprint, label, index, *row]) for index, row in found.items()]
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("a", encoding="utf-8") as file:
                # An earlier process may have been killed in the middle of the last line.
                is_cut = not self._has_begun and file.tell()
                file.write("\n" * bool(is_cut) + "".join(lines))
            self._has_begun = True
        except OSError as error:
            self._is_full = True
            lost = "what is found from here on would be lost by an interruption"
            warnings.warn(f"{self._path}: cannot be written ({reason_of(error)}); {lost}", stacklevel=2)

    def _read(self, file: Path) -> None:
        try:
            text = file.read_text(encoding="utf-8", errors="replace")
        except OSError as error:
            warnings.warn(f"{file}: not used, it cannot be read ({reason_of(error)})", stacklevel=3)
            return
        for line in text.splitlines():
            try:
                *content, _ = json.loads(line)
                owner, attack, index, *numbers = content
                row = Row(*numbers)
            except (ValueError, TypeError, RecursionError):
                continue
            if owner == self._fingerprint and _line(content) == line + "\n":
                self.known.setdefault(attack, {})[index] = row


def _line(content: list[str | int]) -> str:
    """Write values as a line that ends in a digest of them."""
    digest = hashlib.blake2b(json.dumps(content).encode(), digest_size=8).hexdigest()
    return json.dumps([*content, digest]) + "\n"


def remove_journals(path: Path) -> None:
    """Remove what all processes wrote, once it is part of a saved result.

    Args:
        path: the name that the journals were made with
    """
    for file in _parts(path):
        file.unlink(missing_ok=True)


def _parts(path: Path) -> list[Path]:
    """Return the files of all processes."""
    stem, suffix = map(glob.escape, (path.stem, path.suffix))
    return sorted(file for file in path.parent.glob(f"{stem}.rank*{suffix}") if file.is_file())
