"""Files of a named dataset that are not those that were published: a dataset of its own, NAME-unverified.

Its name is part of every recipe, run folder, assessment, certificate and report, so whatever is measured on
such files says so. Their md5s are recorded when they are taken, so that damage is still found.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import msgspec

from soar import files
from soar.data.files import FETCHABLE, File, chunks, find, memory_limit, open_regular, parsing, read_published
from soar.errors import UserError

SUFFIX = "-unverified"
_RECORD = "md5.json"
_LARGEST_RECORD = 1 << 16


def base_of(name: str) -> str:
    """Return the dataset whose files those of a name should be.

    >>> base_of("svhn-unverified"), base_of("svhn")
    ('svhn', 'svhn')
    """
    return name.removesuffix(SUFFIX)


def wanted(name: str) -> tuple[File, ...]:
    """Return the files of a dataset with any contents that fit into memory."""
    return tuple(File(file.name, memory_limit(), "") for file in FETCHABLE[base_of(name)])


def record(name: str, folder: Path) -> None:
    """Record the sizes and md5s of files that were just taken."""
    found = {}
    for file in wanted(name):
        path = find(folder, file.name) or folder / file.name
        digest = hashlib.md5(usedforsecurity=False)
        with open_regular(path, file.size) as stream:
            for piece in chunks(stream):
                digest.update(piece)
        found[file.name] = [path.stat().st_size, digest.hexdigest()]
    files.write(folder / _RECORD, json.dumps(found, indent=1) + "\n")


def recorded(name: str, folder: Path) -> tuple[File, ...]:
    """Return the files of a dataset as they were taken; of a folder without a record those to be taken.

    Raises:
        UserError: if the record is damaged
    """
    path, names = folder / _RECORD, [file.name for file in FETCHABLE[base_of(name)]]
    if not path.is_file():
        return wanted(name)
    with parsing(path, "damaged record of md5s"), open_regular(path, _LARGEST_RECORD) as stream:
        stored = msgspec.json.decode(stream.read(), type=dict[str, tuple[int, str]])
        if sorted(stored) != sorted(names):
            raise UserError(f"{path}: got files {', '.join(stored)}, expected {', '.join(names)}")
        return tuple(File(one, *stored[one]) for one in names)


def files_of(name: str, folder: Path) -> tuple[File, ...]:
    """Return the files that a folder must hold: those that were published, or those that were taken.

    Args:
        name: the published dataset
        folder: its name tells whether its files are others
    """
    return recorded(name, folder) if _is_own(name, folder) else FETCHABLE[name]


def contents_of(name: str, folder: Path) -> Iterator[bytes]:
    """Yield the contents of those files, in their order.

    Raises:
        UserError: one is missing, or is not what was published or taken
    """
    for file in files_of(name, folder):
        try:
            yield read_published(folder, file)
        except UserError as error:
            full = name + SUFFIX if _is_own(name, folder) else name
            raise UserError(f"{error}; run `soar data verify {full}`") from None


def _is_own(name: str, folder: Path) -> bool:
    return folder.name == name + SUFFIX
