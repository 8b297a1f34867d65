"""The files of datasets: read without trusting them, checked by their md5, written whole or not at all."""

from __future__ import annotations

import gzip
import hashlib
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal, cast

from soar import files
from soar.errors import UserError, printable, reason_of

State = Literal["ok", "damaged", "missing"]
CHUNK = 1 << 20
# What gzip and tar may add to the files that they carry: headers, blocks stored as they are, small notes.
SLACK = 1 << 20
_LONGEST_REASON = 200


@dataclass(frozen=True)
class File:
    """One file of a dataset, with the size and the md5 of its uncompressed contents.

    The checksum guards against damage. It is md5 because that is what the publishers list. Without one any
    contents of at most that size are taken.
    """

    name: str
    size: int
    md5: str


_CIFAR10_SIZE = 10_000 * (1 + 3 * 32 * 32)
FETCHABLE: dict[str, tuple[File, ...]] = {
    "cifar10": (
        File("data_batch_1.bin", _CIFAR10_SIZE, "5dd7e06a14cb22eb9f671a540d1b7c25"),
        File("data_batch_2.bin", _CIFAR10_SIZE, "5ea93a67294ea407fff1d09f752e9692"),
        File("data_batch_3.bin", _CIFAR10_SIZE, "942cd6a4bcdd0dd3c604fbe906cb4421"),
        File("data_batch_4.bin", _CIFAR10_SIZE, "ae636b3ba5c66a11e91e8cb52e771fcb"),
        File("data_batch_5.bin", _CIFAR10_SIZE, "53f37980c15c3d472c316c40844f3f0d"),
        File("test_batch.bin", _CIFAR10_SIZE, "803d5f7f4d78ea53de84dbe85f74fb6d"),
    ),
    "cifar100": (
        File("train", 155_249_918, "16019d7e3df5f24257cddd939b257f8d"),
        File("test", 31_049_707, "f0ef6b0ae62326f3e7ffdfab6717acfc"),
        File("meta", 1_473, "7973b15100ade9c7d40fb424638fde48"),
    ),
    "fashion-mnist": (
        File("train-images-idx3-ubyte", 47_040_016, "f4a8712d7a061bf5bd6d2ca38dc4d50a"),
        File("train-labels-idx1-ubyte", 60_008, "9018921c3c673c538a1fc5bad174d6f9"),
        File("t10k-images-idx3-ubyte", 7_840_016, "8181f5470baa50b63fa0f6fddb340f0a"),
        File("t10k-labels-idx1-ubyte", 10_008, "15d484375f8d13e6eb1aabb0c3f46965"),
    ),
    "svhn": (
        File("train_32x32.mat", 182_040_794, "e26dedcc434d2e4c54c9b2d4a06d8373"),
        File("test_32x32.mat", 64_275_384, "eb5a983be6a315427106f1b164d9cef3"),
    ),
    "tiny-imagenet": (File("tiny-imagenet-200.zip", 248_100_043, "90528d7ca1a48142e341f4ef8d21d0de"),),
}
# The sample of Fashion-MNIST inside the package: something real to train on without a download.
BUNDLED, BUNDLED_FOLDER = "fashion-mnist-sample", Path(__file__).parent / "fashion_mnist_sample"
BUNDLED_FILES = (
    File("train.png", 3_959_335, "0e1290d34f91c163301a68077ff64ff0"),
    File("test.png", 793_422, "689a206bb342cfbc82f422f13e08f1b2"),
    File("labels.npz", 28_086, "f937e4fc5dbb8f3371c5546011ea9de9"),
)


def find(folder: Path, name: str) -> Path | None:
    """Return the path of a file, plain or compressed with gzip; None where there is neither."""
    for path in (folder / name, folder / f"{name}.gz"):
        if os.path.isfile(path):  # a name that is too long is no file either
            return path
    return None


def state(folder: Path, file: File) -> State:
    """Return whether a file is in the folder with exactly the contents that were published."""
    if find(folder, file.name) is None:
        return "missing"
    try:
        read_published(folder, file)
    except UserError:
        return "damaged"
    return "ok"


def read_published(folder: Path, file: File) -> bytes:
    """Read a file, plain or compressed, that must have exactly the contents that were published.

    Raises:
        UserError: it has other contents, or cannot be read
    """
    path = find(folder, file.name) or folder / file.name
    is_packed = path.suffix == ".gz"
    with (
        parsing(path, "cannot be read"),
        open_regular(path, file.size + (SLACK if is_packed else 0)) as stream,
    ):
        contents = cast(IO[bytes], gzip.GzipFile(fileobj=stream)) if is_packed else stream
        return b"".join(checked(file, chunks(contents)))


def place(folder: Path, file: File, pieces: Iterable[bytes]) -> None:
    """Write a file atomically after checking its contents.

    Args:
        folder: where it goes
        file: its name, and the size and md5 that its contents must have
        pieces: the contents

    Raises:
        UserError: the contents are not what was published
        FileError: it cannot be written
    """
    files.write(folder / file.name, checked(file, pieces))


def checked(file: File, pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield contents and check them against the published size and md5.

    Args:
        file: what was published
        pieces: the contents

    Raises:
        UserError: as soon as there is more than was published, or at the end for less or for another md5
    """
    digest, size = hashlib.md5(usedforsecurity=False), 0
    for piece in pieces:
        size += len(piece)
        if size > file.size:
            raise UserError(
                f"{file.name}: wrong contents, more than the {file.size} bytes that "
                + ("were published" if file.md5 else "are allowed, half of the memory here")
            )
        digest.update(piece)
        yield piece
    if not file.md5:
        return
    if size < file.size:
        raise UserError(f"{file.name}: wrong contents, {size} of the {file.size} bytes that were published")
    if digest.hexdigest() != file.md5:
        raise UserError(f"{file.name}: wrong contents, md5 is {digest.hexdigest()}, published is {file.md5}")


def memory_limit() -> int:
    """Return the largest size of a dataset in bytes: half of the machine's memory, because it is copied."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2


def check_memory(size: int, where: Path | str) -> None:
    """Check that data may be unpacked, before that is tried.

    Args:
        size: the number of bytes that a header announces
        where: the file, for the message

    Raises:
        UserError: they would take more than half of the machine's memory
    """
    if size > memory_limit():
        raise UserError(
            f"{where}: announces {size} bytes of data, allowed are {memory_limit()}, half of the memory here"
        )


def reason(error: BaseException) -> str:
    """Return what went wrong as a short line, without the place in the code.

    >>> reason(ValueError("bad", "header")), reason(MemoryError())
    ("('bad', 'header')", 'MemoryError')
    """
    text = reason_of(error) if isinstance(error, OSError) else str(error)
    return printable(" ".join(text.split()), _LONGEST_REASON) or type(error).__name__


@contextmanager
def parsing(where: Path | str, fault: str) -> Iterator[None]:
    """Turn any exception of a parser into a UserError that names the file.

    Parsers raise almost any exception for a file that was made to break them, so all kinds are caught.

    Args:
        where: the file
        fault: what is wrong with it, such as "cannot be read as an image"
    """
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        raise UserError(f"{where}: {fault} ({reason(error)})") from None


def open_regular(path: Path, limit: int) -> IO[bytes]:
    """Open a regular file for reading; a pipe, a device or a folder is refused instead of waited for.

    Args:
        path: the file, or a link to it
        limit: how many bytes it may have

    Raises:
        UserError: it is something else, too large, or cannot be opened
    """
    with parsing(path, "cannot be read"):
        found = os.stat(path)
        if not stat.S_ISREG(found.st_mode):
            raise UserError(f"{path}: not a regular file")
        if found.st_size > limit:
            raise UserError(f"{path}: {found.st_size} bytes, allowed are at most {limit}")
        return path.open("rb")


def chunks(stream: IO[bytes]) -> Iterator[bytes]:
    """Read a stream in chunks, so that no large file is ever in memory as a whole."""
    while piece := stream.read(CHUNK):
        yield piece
