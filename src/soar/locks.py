"""Locks between processes, dropped by the operating system with the process that holds them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Self

from soar.errors import FileError, UserError, reason_of

_POLL_SECONDS = 0.2


def try_lock(descriptor: int) -> bool:
    """Lock an open file or folder; return False if another process holds the lock.

    Windows and some network file systems have no such locks. There everyone gets the lock.

    Args:
        descriptor: of the open file; closing it releases the lock
    """
    try:
        import fcntl
    except ImportError:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


class Lock:
    """Keep other processes out while something is written; the lock file is removed on release.

    Args:
        path: the lock file; its folder is made if need be
        refusal: what to say if another process holds the lock
    """

    def __init__(self, path: Path, refusal: str) -> None:
        self._path, self._refusal = path, refusal
        self._descriptor: int | None = None

    def acquire(self) -> None:
        """Take the lock.

        Raises:
            UserError: if another process holds it, or the lock file cannot be made
        """
        if not self.try_acquire():
            raise UserError(f"{self._refusal}; wait for it")

    def try_acquire(self) -> bool:
        """Take the lock; return False if another process holds it.

        Raises:
            FileError: if the lock file cannot be made
        """
        while self._descriptor is None:
            descriptor = self._open()
            if not try_lock(descriptor):
                os.close(descriptor)
                return False
            # The process that held it may have removed the file after we opened it.
            if _is_same(descriptor, self._path):
                self._descriptor = descriptor
            else:
                os.close(descriptor)
        return True

    @contextmanager
    def waited_for(self, say: Callable[[str], None]) -> Iterator[None]:
        """Hold the lock for a block, after waiting for the process that holds it now.

        Args:
            say: takes one line before waiting
        """
        if not self.try_acquire():
            say(f"{self._refusal}; waiting for it")
            while not self.try_acquire():
                time.sleep(_POLL_SECONDS)
        with self:
            yield

    def release(self) -> None:
        """Release the lock, if it was taken."""
        if self._descriptor is not None:
            with suppress(OSError):
                self._path.unlink()
            os.close(self._descriptor)
            self._descriptor = None

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def _open(self) -> int:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            return os.open(self._path, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
        except (OSError, ValueError) as error:
            reason = reason_of(error) if isinstance(error, OSError) else str(error)
            raise FileError(f"{self._path.parent}: cannot be written ({reason})") from None


def run_lock(run: Path) -> Lock:
    """Return the lock of whoever trains in a run folder."""
    return Lock(run / ".lock", f"{run}: another process is training here")


@contextmanager
def reserved(name: str, folder: Path, suffix: str) -> Iterator[Path]:
    """Reserve a file name that nobody has taken: name, name-2, name-3, ... until the end of the block.

    Two processes that write results into one folder at the same time get different names. A process that was
    killed has released its reservation, so the next one gets the same name and finds what was kept beside it.

    Args:
        name: the file's name without its suffix
        folder: where the file is to be
        suffix: such as ".json"

    Raises:
        UserError: if nothing can be written to the folder
    """
    for number in count(1):
        path = folder / f"{name}{'' if number == 1 else f'-{number}'}{suffix}"
        if os.path.lexists(path):
            continue
        lock = reservation(path)
        if not lock.try_acquire():
            continue
        with lock:
            # It may have been written between the first look and the lock.
            if not os.path.lexists(path):
                yield path
                return


def reservation(path: Path) -> Lock:
    """Return the lock of whoever is about to write a result to this very path."""
    return Lock(path.with_name(f".{path.name}.lock"), f"{path}: another process is writing it")


def _is_same(descriptor: int, path: Path) -> bool:
    """Return whether a path still leads to the file that was opened."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False
