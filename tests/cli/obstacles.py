"""What a machine may put in the way of a command: a full disk, folders without permission, damaged files."""

from __future__ import annotations

import ctypes
import os
import random
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

_CAPABILITIES = 0x20080522
_OVERRIDE = 0b110
"""the capabilities by which root passes over permissions, DAC_OVERRIDE and DAC_READ_SEARCH"""


class _Header(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _Sets(ctypes.Structure):
    _fields_ = (
        ("effective", ctypes.c_uint32),
        ("permitted", ctypes.c_uint32),
        ("inherited", ctypes.c_uint32),
    )


@contextmanager
def permissions_that_count() -> Iterator[None]:
    """Let permissions bind this process even if it is root's."""
    libc, header, sets = ctypes.CDLL(None, use_errno=True), _Header(_CAPABILITIES, 0), (_Sets * 2)()
    assert not libc.capget(ctypes.byref(header), ctypes.byref(sets))
    before = sets[0].effective
    sets[0].effective = before & ~_OVERRIDE
    assert not libc.capset(ctypes.byref(header), ctypes.byref(sets))
    try:
        yield
    finally:
        sets[0].effective = before
        assert not libc.capset(ctypes.byref(header), ctypes.byref(sets))


@contextmanager
def full_disk(room: int) -> Iterator[None]:
    """Let every file of this process take at most so many bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@contextmanager
def mode_of_all(folder: Path, mode: int) -> Iterator[None]:
    """Give a folder and all folders in it other permissions for a while."""
    folders = [folder, *(path for path in folder.rglob("*") if path.is_dir())]
    before = [(path, path.stat().st_mode) for path in folders]
    for path, _ in reversed(before):
        path.chmod(mode)
    try:
        yield
    finally:
        for path, old in before:
            path.chmod(old)


def contents(folder: Path) -> dict[str, bytes | None]:
    """Everything in a folder by its name."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
    }


def _flip(file: Path, draw: random.Random) -> None:
    data = bytearray(file.read_bytes())
    if data:
        data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    file.write_bytes(bytes(data))


def _cut(file: Path, draw: random.Random) -> None:
    data = file.read_bytes()
    file.write_bytes(data[: draw.randrange(len(data) + 1)])


def _overwrite(file: Path, draw: random.Random) -> None:
    data = bytearray(file.read_bytes())
    first = draw.randrange(len(data) + 1)
    data[first : first + 64] = draw.randbytes(64)
    file.write_bytes(bytes(data))


def _empty(file: Path, _: random.Random) -> None:
    file.write_bytes(b"")


DAMAGES: dict[str, Callable[[Path, random.Random], None]] = {
    "flip": _flip,
    "cut": _cut,
    "overwrite": _overwrite,
    "empty": _empty,
    "remove": lambda file, _: os.unlink(file),
}
