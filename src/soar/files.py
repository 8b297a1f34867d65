"""Write files completely or not at all, and never over something that is not a regular file.

Every file of this package is written here, except for logs that grow line by line. What is not complete yet
is in a temporary folder with an unpredictable name, locked by its process; those that a killed process left
behind are removed by the next one that writes to the same place.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import count
from pathlib import Path

from filelock import lock_descriptor

from soar.errors import FileError, UserError, reason_of

_PREFIX, _SUFFIX = ".soar-", ".tmp"
# Windows has flags of its own, lacks others, and opens no folders: there a file inside is locked instead.
_BINARY = getattr(os, "O_BINARY", 0)
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY
_FOLDER = getattr(os, "O_DIRECTORY", 0)
_LOCK = "lock"


def write(path: Path | str, content: str | bytes | Iterable[bytes], *, overwrite: bool = True) -> None:
    """Write a file so that a reader sees the old contents or the new, never a part.

    A symbolic link is followed and stays one. A device or a pipe is written to as it is, because replacing
    its node would destroy it.

    Args:
        path: the file; folders above it are made if need be
        content: text, bytes, or pieces of bytes; an exception while they are made leaves no file
        overwrite: whether a file that exists is replaced

    Raises:
        FileError: if it cannot be written, or exists and must not be replaced

    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write(Path(folder) / "best", "step-00000012")
    ...     (Path(folder) / "best").read_text()
    'step-00000012'
    """
    pieces = [content.encode()] if isinstance(content, str) else content
    pieces = [pieces] if isinstance(pieces, bytes) else pieces
    with _errors_about(path):
        found = _stat(path)
    if found is not None and not overwrite:
        raise FileError(f"{path} exists already; choose another name")
    target = Path(os.path.realpath(path))
    # The target of a link such as /dev/stdout may have no name of its own.
    if found is not None and (not stat.S_ISREG(found.st_mode) or not target.exists()):
        _write_through(path, pieces)
        return
    with ExitStack() as held:
        with _errors_about(path):
            temporary = held.enter_context(_new_folder(target.parent)) / "file"
            descriptor = os.open(temporary, _NEW, 0o666)
        try:
            _fill(descriptor, pieces, path)
            with _errors_about(path):
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
        with _errors_about(path):
            if found is not None:
                os.chmod(temporary, stat.S_IMODE(found.st_mode))
            _move(temporary, target, overwrite=overwrite)
            sync(target.parent)


@contextmanager
def temporary_folder(parent: Path) -> Iterator[Path]:
    """Make a folder beside where its contents are to go; what is left in it is removed at the end.

    Args:
        parent: made if need be

    Raises:
        FileError: if no folder can be made there
    """
    with ExitStack() as held:
        with _errors_about(parent):
            folder = held.enter_context(_new_folder(parent))
        yield folder


def clean(folder: Path) -> None:
    """Remove the temporary folders of processes that were killed while they wrote here."""
    for path in folder.glob(f"{_PREFIX}*{_SUFFIX}"):
        with suppress(OSError):
            descriptor = _open_lock(path)
            if _try_lock(descriptor):
                _remove(path, descriptor)
            else:
                os.close(descriptor)


def numbered(folder: Path, name: str, suffix: str = "") -> Iterator[Path]:
    """Yield paths in a folder: name, name-2, name-3, ..., each with a suffix such as ".json"."""
    yield folder / f"{name}{suffix}"
    for number in count(2):
        yield folder / f"{name}-{number}{suffix}"


def ready_folder(folder: Path, flag: str) -> Path:
    """Make a folder and check that it can be written to, before hours are spent on its contents.

    Args:
        folder: need not exist
        flag: the flag that chose it, for the message

    Raises:
        FileError: if nothing can be written there
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except (OSError, ValueError) as error:
        raise FileError(f"{flag}: {folder} cannot be written to ({reason_of(error)})") from None


def sync(folder: Path) -> None:
    """Force the names in a folder to disk, where folders can be opened."""
    if not _FOLDER:
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _errors_about(path: Path | str) -> Iterator[None]:
    """Raise what goes wrong as a `FileError` that names the path."""
    try:
        yield
    except UserError:
        raise
    except (OSError, ValueError) as error:  # a ValueError for a null byte in the name
        raise FileError(f"{path}: cannot be written ({reason_of(error)})") from None


def _stat(path: Path | str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except FileNotFoundError:
        return None


def _try_lock(descriptor: int) -> bool:
    """Lock an open folder until it is closed; return False if another process holds the lock."""
    try:
        return lock_descriptor(descriptor, blocking=False)
    except OSError:  # a file system without locks
        return True


@contextmanager
def _new_folder(parent: Path) -> Iterator[Path]:
    """Make a folder that is locked for a block, and removed at its end with all that is left in it."""
    parent.mkdir(parents=True, exist_ok=True)
    clean(parent)
    while True:
        folder = Path(tempfile.mkdtemp(_SUFFIX, _PREFIX, parent))
        # Another process may remove it before it is locked; then another one is made.
        with suppress(FileNotFoundError):
            descriptor = _open_lock(folder)
            if _try_lock(descriptor) and folder.exists():
                break
            os.close(descriptor)
    try:
        yield folder
    finally:
        _remove(folder, descriptor)


def _open_lock(folder: Path) -> int:
    """Open what is locked for a temporary folder; a link in its place is refused."""
    if _FOLDER:
        return os.open(folder, os.O_RDONLY | _FOLDER | os.O_NOFOLLOW)
    if folder.is_symlink():
        raise NotADirectoryError(folder)
    return os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | _BINARY)


def _remove(folder: Path, descriptor: int) -> None:
    """Remove a temporary folder, and last the file that is locked, which Windows keeps while it is open."""
    shutil.rmtree(folder, ignore_errors=True)
    os.close(descriptor)
    if not _FOLDER:
        shutil.rmtree(folder, ignore_errors=True)


def _fill(descriptor: int, pieces: Iterable[bytes], path: Path | str) -> None:
    for piece in pieces:
        rest = memoryview(piece)
        with _errors_about(path):
            while rest:
                rest = rest[os.write(descriptor, rest) :]


def _move(temporary: Path, target: Path, *, overwrite: bool) -> None:
    if overwrite:
        os.replace(temporary, target)
        return
    try:
        os.link(temporary, target)
    except FileExistsError:
        raise FileError(f"{target} exists already; choose another name") from None
    except OSError:  # a file system without hard links
        os.close(os.open(target, _NEW, 0o666))
        os.replace(temporary, target)


def _write_through(path: Path | str, pieces: Iterable[bytes]) -> None:
    """Write to a device or a pipe; a pipe without a reader is refused instead of waited for."""
    patient = getattr(os, "O_NONBLOCK", 0)
    with _errors_about(path):
        descriptor = os.open(path, os.O_WRONLY | patient | _BINARY)
    try:
        if patient:
            os.set_blocking(descriptor, True)
        _fill(descriptor, pieces, path)
    finally:
        os.close(descriptor)
