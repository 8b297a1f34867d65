"""Take away what Windows lacks, and refuse what Windows refuses.

A folder cannot be opened, a file that is open cannot be moved, replaced or removed, and a symbolic link needs
a permission. As a file `sitecustomize.py` on PYTHONPATH it acts on a process and on all that it starts.
"""

from __future__ import annotations

import os
import pathlib
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable
from typing import Any

MISSING = {
    os: "O_DIRECTORY O_NOFOLLOW O_TMPFILE fchmod fork forkpty killpg getuid geteuid"
    " sched_getaffinity sched_setaffinity mkfifo",
    signal: "SIGHUP SIGKILL SIGALRM SIGUSR1 SIGUSR2 SIGQUIT pthread_sigmask",
}


def _is_open(path: Any) -> bool:
    """Return whether this process has a file open, or mapped into its memory, at a path or below it."""
    real = os.path.realpath(path)
    maps = pathlib.Path("/proc/self/maps").read_text().splitlines()
    held = {line.split(maxsplit=5)[-1].strip() for line in maps if "/" in line}
    for descriptor in os.listdir("/proc/self/fd"):
        try:
            held.add(os.readlink(f"/proc/self/fd/{descriptor}"))
        except OSError:
            continue
    return any(one == real or one.startswith(f"{real}/") for one in held)


def refusing(real: Callable[..., Any]) -> Callable[..., Any]:
    def run(*paths: Any, **named: Any) -> Any:
        for path in paths:
            if _is_open(path):
                raise PermissionError(13, "The file is being used by another process", str(path))
        return real(*paths, **named)

    return run


def opening(real: Callable[..., int]) -> Callable[..., int]:
    def run(path: Any, *rest: Any, **named: Any) -> int:
        if os.path.isdir(path):
            raise PermissionError(13, "Permission denied", str(path))
        return real(path, *rest, **named)

    return run


def no_links(*_: Any, **__: Any) -> None:
    raise OSError("A required privilege is not held by the client")


def take_away() -> None:
    """Do so in this process, for good."""
    for module, names in MISSING.items():
        for name in names.split():
            if hasattr(module, name):
                delattr(module, name)
    for name in ("replace", "rename", "unlink", "remove"):
        setattr(os, name, refusing(getattr(os, name)))
    os.open = opening(os.open)
    os.symlink = no_links
    sys.modules["resource"] = None  # type: ignore[assignment]
    shutil._use_fd_functions = False  # type: ignore[attr-defined]
    tempfile.TemporaryFile = tempfile.NamedTemporaryFile  # type: ignore[assignment]
