"""Writing files: whole or not at all, and never over something that is not a regular file.

Every file of this package is written here, except for logs that grow line by line. Temporary files have
unpredictable names, are opened so that they cannot be somebody else's, and are locked while they are written;
those that a killed process left behind are removed by the next one that writes to the same folder.
"""

from __future__ import annotations

import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import lock_descriptor

from soar.errors import FileError, UserError, reason_of

_PREFIX, _SUFFIX = ".soar-", ".tmp"
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


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
    with _told_about(path):
        found = _stat(path)
    if found is not None and not overwrite:
        raise FileError(f"{path} exists already; choose another name")
    target = Path(os.path.realpath(path))
    # The target of a link such as /dev/stdout may have no name of its own.
    if found is not None and (not stat.S_ISREG(found.st_mode) or not target.exists()):
        _write_through(path, pieces)
        return
    with _told_about(path):
        target.parent.mkdir(parents=True, exist_ok=True)
        clean(target.parent)
        descriptor, temporary = _new_file(target.parent)
    try:
        _fill(descriptor, pieces, path)
        with _told_about(path):
            if found is not None:
                os.fchmod(descriptor, stat.S_IMODE(found.st_mode))
            os.fsync(descriptor)
            _move(temporary, target, overwrite=overwrite)
            sync(target.parent)
    finally:
        with suppress(OSError):
            temporary.unlink()
        os.close(descriptor)


@contextmanager
def temporary_folder(parent: Path) -> Iterator[Path]:
    """Make a folder beside where its contents are to go; what is left in it is removed at the end.

    Args:
        parent: made if need be

    Raises:
        FileError: if no folder can be made there
    """
    with _told_about(parent):
        parent.mkdir(parents=True, exist_ok=True)
        clean(parent)
        descriptor, folder = _new_folder(parent)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(descriptor)


def move(written: Path, path: Path) -> None:
    """Move what was written to a temporary folder to where it belongs, and where nothing may be yet.

    Raises:
        FileError: if something is there, or it cannot be moved
    """
    with _told_about(path):
        if os.path.lexists(path):
            raise FileError(f"{path} exists already; choose another name")
        os.rename(written, path)
        sync(path.parent)


def clean(folder: Path) -> None:
    """Remove the temporary files and folders of processes that were killed while they wrote here."""
    for path in folder.glob(f"{_PREFIX}*{_SUFFIX}"):
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            continue
        try:
            if not _try_lock(descriptor):
                continue
            if stat.S_ISDIR(os.fstat(descriptor).st_mode):
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
        except OSError:
            continue
        finally:
            os.close(descriptor)


def ready_folder(folder: Path, flag: str) -> Path:
    """Make a folder and try to write there, before hours are spent on what it is to hold.

    Args:
        folder: need not exist
        flag: what chose it, for the message

    Raises:
        FileError: if nothing can be written there
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except (OSError, ValueError) as error:
        reason = reason_of(error) if isinstance(error, OSError) else str(error)
        raise FileError(f"{flag}: {folder} cannot be written to ({reason})") from None


def sync(folder: Path) -> None:
    """Force the names in a folder to disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _told_about(path: Path | str) -> Iterator[None]:
    try:
        yield
    except UserError:
        raise
    except OSError as error:
        raise FileError(f"{path}: cannot be written ({reason_of(error)})") from None
    except ValueError as error:  # a null byte in the name
        raise FileError(f"{path!r}: cannot be written ({error})") from None


def _stat(path: Path | str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except FileNotFoundError:
        return None


def _try_lock(descriptor: int) -> bool:
    """Lock an open file or folder until it is closed; return False if another process holds the lock."""
    try:
        return lock_descriptor(descriptor, blocking=False)
    except OSError:  # a file system without locks
        return True


def _name() -> str:
    return f"{_PREFIX}{secrets.token_hex(8)}{_SUFFIX}"


def _new_file(folder: Path) -> tuple[int, Path]:
    """Open a new file and lock it; `clean` may have removed it in between, then another one is made."""
    while True:
        path = folder / _name()
        descriptor = os.open(path, _NEW, 0o666)
        if _try_lock(descriptor) and os.fstat(descriptor).st_nlink:
            return descriptor, path
        os.close(descriptor)


def _new_folder(parent: Path) -> tuple[int, Path]:
    """Make a new folder and lock it, as `_new_file` does."""
    while True:
        path = parent / _name()
        path.mkdir()
        with suppress(FileNotFoundError):
            descriptor = os.open(path, os.O_RDONLY)
            if _try_lock(descriptor) and path.exists():
                return descriptor, path
            os.close(descriptor)


def _fill(descriptor: int, pieces: Iterable[bytes], path: Path | str) -> None:
    for piece in pieces:
        rest = memoryview(piece)
        with _told_about(path):
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
    """Write to a device or a pipe; a pipe that nobody reads is refused instead of waited for."""
    with _told_about(path):
        descriptor = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
    try:
        os.set_blocking(descriptor, True)
        _fill(descriptor, pieces, path)
    finally:
        os.close(descriptor)
