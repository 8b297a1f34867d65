"""SVHN, the cropped digits of house numbers: 32 x 32 color photographs of 0 to 9."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from soar.data.dataset import Dataset, Split, from_files, labeled
from soar.data.files import FETCHABLE, File, located, parsing, read_bytes
from soar.errors import UserError

CLASSES = tuple(str(digit) for digit in range(10))
TRAIN, TEST = FETCHABLE["svhn"]
# The 73,257 images of the training set take 225 MB.
_LARGEST = 1 << 28
_HEADER_SIZE = 128
_VERSION = b"\x00\x01IM"
_COMPRESSED = 15
_MOST_PARTS = 16
_PLAIN = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "double", "single")


def read(folder: Path) -> Dataset:
    """Read the two MATLAB files; in them the digit 0 carries the label 10.

    Args:
        folder: where `train_32x32.mat` and `test_32x32.mat` are

    Raises:
        UserError: scipy is not installed, or a file is damaged or holds something else
    """
    return from_files(str(folder), CLASSES, _read_matlab(folder, TRAIN), _read_matlab(folder, TEST))


def _read_matlab(folder: Path, file: File) -> Split:
    try:
        from scipy.io import loadmat, whosmat
    except ImportError:
        raise UserError(
            "svhn: scipy, which reads its MATLAB files, is not installed;"
            " run `pip install 'soar-robust[svhn]'`"
        ) from None
    path = located(folder, file.name)
    with _readable(path):
        variables = _unpacked(read_bytes(path, file.size))
        kinds = {name: kind for name, _, kind in whosmat(variables)}
    for name in ("X", "y"):
        if name not in kinds:
            raise UserError(f"{path}: variable '{name}' is missing, expected 'X' and 'y'")
        # Cells, structures and sparse matrices nest and multiply.
        if kinds[name] not in _PLAIN:
            raise UserError(f"{path}: variable '{name}' is of kind {kinds[name]}, expected numbers")
    with _readable(path):
        contents = loadmat(variables, variable_names=["X", "y"])
        pixels, labels = contents["X"], contents["y"].reshape(-1)
    if pixels.dtype != np.uint8 or pixels.ndim != 4 or pixels.shape[:3] != (32, 32, 3):
        raise UserError(f"{path}: X is {pixels.dtype} of shape {pixels.shape}, expected uint8 (32, 32, 3, N)")
    if labels.dtype.kind not in "iuf" or not (np.isfinite(labels) & (labels == np.floor(labels))).all():
        raise UserError(f"{path}: y is {labels.dtype}, expected whole numbers")
    images = np.ascontiguousarray(pixels.transpose(3, 2, 0, 1))
    digits = np.where(labels == 10, 0, labels)
    return labeled(images, digits, num_classes=len(CLASSES), where=str(path))


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Turn exceptions of scipy into a UserError that names the command to check the file."""
    try:
        with parsing(path, "not a readable MATLAB file"):
            yield
    except UserError as error:
        raise UserError(f"{error}; run `soar data verify svhn`") from None


def _unpacked(contents: bytes) -> io.BytesIO:
    """Unpack the variables of a MATLAB 5 file, at most as many bytes as SVHN's have.

    scipy would unpack whatever there is, and follow whatever the file's header points to.
    """
    if len(contents) < _HEADER_SIZE or contents[124:128] != _VERSION:
        raise ValueError("no MATLAB 5 header")
    unpacked = io.BytesIO(b"MATLAB 5.0 MAT-file".ljust(116) + bytes(8) + _VERSION)
    place = unpacked.seek(0, io.SEEK_END)
    begin = _HEADER_SIZE
    while begin < len(contents):
        kind, size = struct.unpack_from("<II", contents, begin)
        end = begin + 8 + size
        if end > len(contents):
            raise ValueError("cut short")
        variable = memoryview(contents)[begin:end]
        if kind == _COMPRESSED:
            variable = memoryview(zlib.decompressobj().decompress(variable[8:], _LARGEST))
        place += len(variable)
        if place > _LARGEST:
            raise ValueError(f"more than {_LARGEST} bytes of variables")
        _check_parts(variable)
        unpacked.write(variable)
        begin = end
    unpacked.seek(0)
    return unpacked


def _check_parts(variable: memoryview) -> None:
    """Check that flags, shape, name and values fill the variable; scipy allocates what they announce."""
    begin = 8
    for _ in range(_MOST_PARTS):
        if begin >= len(variable):
            break
        kind, size = struct.unpack_from("<II", variable, begin)
        # A part of at most four bytes has its length beside its kind, and its values in place of the length.
        begin += 8 if kind >> 16 else 8 + size + -size % 8
    if begin != len(variable):
        raise ValueError("a variable of another length than its parts")
