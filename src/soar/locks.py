"""Locks between processes, on `filelock`: the operating system drops a lock when its process ends."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from soar import files
from soar.errors import FileError, UserError, reason_of

# How flock fails on a file system without locks, such as some network file systems.
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP)
# One attempt fails if the holder removes the file right after it was opened; another one opens the new file.
_PATIENCE_SECONDS = 0.2


class LockedError(UserError):
    """Another process holds the lock."""


@contextmanager
def lock(path: Path, refusal: str, say: Callable[[str], None] | None = None) -> Iterator[None]:
    """Keep other processes out for a block; the lock file is removed at the end.

    On a file system without locks the block runs without one.

    Args:
        path: the lock file; its folder is made if need be
        refusal: the beginning of the message if another process holds the lock
        say: takes one line before waiting for that process; without it there is an error instead

    Raises:
        LockedError: if another process holds the lock and is not waited for
        FileError: if the lock file cannot be made
    """
    # A soft lock, the fallback of filelock, would outlive a process that is killed.
    held = FileLock(path, thread_local=False, fallback_to_soft=False)
    try:
        _acquire(held, refusal, say)
    except UserError:
        raise
    except (OSError, ValueError) as error:  # a ValueError for a null byte in the name
        if getattr(error, "errno", None) not in _NO_LOCKS:
            raise FileError(f"{path.parent}: cannot be written ({reason_of(error)})") from None
    try:
        yield
    finally:
        # While it is held: a process that has opened the file already notices that it is gone.
        with suppress(OSError):
            path.unlink()
        held.release()


def _acquire(held: FileLock, refusal: str, say: Callable[[str], None] | None) -> None:
    try:
        held.acquire(_PATIENCE_SECONDS)
    except Timeout:
        # For filelock a file that cannot be made may yet be, as on some network file systems.
        Path(held.lock_file).touch()
        if say is None:
            raise LockedError(f"{refusal}; wait for it") from None
        say(f"{refusal}; waiting for it")
        held.acquire(poll_interval=_PATIENCE_SECONDS)


def run_lock(run: Path) -> AbstractContextManager[None]:
    """Return the lock of the process that trains in a run folder."""
    return lock(run / ".lock", f"{run}: another process is training here")


def reservation(path: Path) -> AbstractContextManager[None]:
    """Return the lock of the process that is about to write a result to this path."""
    return lock(path.with_name(f".{path.name}.lock"), f"{path}: another process is writing it")


@contextmanager
def reserved(name: str, folder: Path, suffix: str) -> Iterator[Path]:
    """Reserve a file name that is not taken for a block: name, name-2, name-3, ...

    Two processes that write results into one folder at the same time get different names. A process that was
    killed has released its reservation, so the next one gets the same name and finds what was kept beside it.

    Args:
        name: the file's name without its suffix
        folder: where the file is to be
        suffix: such as ".json"

    Raises:
        FileError: if nothing can be written to the folder
    """
    for path in files.numbered(folder, name, suffix):
        if os.path.lexists(path):
            continue
        with ExitStack() as held:
            try:
                held.enter_context(reservation(path))
            except LockedError:
                continue
            # It may have been written between the first look and the lock.
            if not os.path.lexists(path):
                yield path
                return
