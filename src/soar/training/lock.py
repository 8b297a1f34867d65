"""One training at a time in a run folder."""

from __future__ import annotations

from pathlib import Path
from typing import IO

from soar.errors import UserError


class RunLock:
    """Keeps a second process from training in the same folder.

    The operating system drops the lock with the process, so a killed training leaves nothing to clean up.

    Args:
        run: the run folder
    """

    def __init__(self, run: Path) -> None:
        self._path = run / ".lock"
        self._file: IO[str] | None = None

    def acquire(self) -> None:
        """Take the lock.

        Raises:
            UserError: if another process has it
        """
        try:
            import fcntl
        except ImportError:  # Windows has no such lock; training goes on without it.
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        file = self._path.open("a")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            raise UserError(f"{self._path.parent}: another process is training here; wait for it") from None
        except OSError:  # Some network file systems have no such lock either.
            file.close()
            return
        self._file = file

    def release(self) -> None:
        """Give the lock back, if it was taken."""
        if self._file is not None:
            self._file.close()
            self._file = None
