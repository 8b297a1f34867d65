"""Limits around a call that gets hostile input, and what must be true of its outcome."""

from __future__ import annotations

import random
import resource
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import torch

from soar.data.dataset import Dataset
from soar.errors import UserError

_MORE_MEMORY = 1 << 30
_LARGEST_WRITTEN = 1 << 23
_SECONDS = 60
_SIGNS_OF_A_LIMIT = ("MemoryError", "Unable to allocate", "File too large", "hung")

T = TypeVar("T")


@contextmanager
def limits() -> Iterator[None]:
    """Allow a call 1 GiB more memory, files of 8 MiB, and a minute, beyond which it counts as hung."""

    def hung(*_: object) -> None:
        raise RuntimeError("hung")

    pages = int(Path("/proc/self/statm").read_text().split()[0])
    wanted = {
        resource.RLIMIT_AS: pages * resource.getpagesize() + _MORE_MEMORY,
        resource.RLIMIT_FSIZE: _LARGEST_WRITTEN,
    }
    before = {kind: resource.getrlimit(kind) for kind in wanted}
    old = signal.signal(signal.SIGALRM, hung)
    signal.alarm(_SECONDS)
    try:
        for kind, limit in wanted.items():
            resource.setrlimit(kind, (limit, before[kind][1]))
        yield
    finally:
        for kind, was in before.items():
            resource.setrlimit(kind, was)
        signal.alarm(0)
        signal.signal(signal.SIGALRM, old)


def outcome(call: Callable[[], T]) -> T | str:
    """Return the result, or the message of the user's error if it is fit to be shown.

    A refusal that only the limits brought about does not count.
    """
    with limits():
        try:
            return call()
        except UserError as error:
            message = str(error)
    assert message.isprintable() and message and len(message) < 10_000
    assert not any(sign in message for sign in _SIGNS_OF_A_LIMIT), message
    return message


def is_sound(source: Dataset) -> bool:
    """Return whether a dataset can be used: bytes, known labels, names that can be shown."""
    parts = [part for part in (source.train, source.test) if len(part)]
    return bool(parts) and all(
        part.images.dtype == torch.uint8
        and part.images.ndim == 4
        and len(part.images) == len(part.labels) == len(part.indices)
        and 0 <= part.labels.min() <= part.labels.max() < len(source.classes)
        and all(name.isprintable() for name in source.classes)
        for part in parts
    )


def mutated(contents: bytes, seed: int) -> bytes:
    """Damage a file in one of seven ways, decided by the seed."""
    draw = random.Random(seed)
    changed = bytearray(contents)
    near = draw.choice([min(64, len(changed)), len(changed)])
    place, count = draw.randrange(near), draw.randint(1, 8)
    match seed % 7:
        case 0:
            for _ in range(count):
                changed[draw.randrange(near)] ^= 1 << draw.randrange(8)
        case 1:
            del changed[place:]
        case 2:
            changed[place : place + 4] = b"\xff\xff\xff\xff"
        case 3:
            changed[place : place + 4] = bytes(4)
        case 4:
            changed[place:place] = draw.randbytes(count)
        case 5:
            del changed[place : place + count]
        case 6:
            changed[place:place] = changed[: draw.randrange(len(changed))]
    return bytes(changed)


def files_below(folder: Path) -> dict[str, int]:
    """List every file below a folder with its size."""
    return {
        str(path.relative_to(folder)): path.stat().st_size for path in folder.rglob("*") if path.is_file()
    }
