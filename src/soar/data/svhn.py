"""SVHN, the cropped digits of house numbers: 32 x 32 colour photographs of 0 to 9."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from soar.data.files import File
from soar.data.source import Examples, Source, examples
from soar.errors import UserError

CLASSES = tuple(str(digit) for digit in range(10))
TRAIN = File("train_32x32.mat", 182_040_794, "e26dedcc434d2e4c54c9b2d4a06d8373")
TEST = File("test_32x32.mat", 64_275_384, "eb5a983be6a315427106f1b164d9cef3")
FILES = (TRAIN, TEST)


def read(folder: Path) -> Source:
    """Read the two MATLAB files; in them the digit 0 carries the label 10.

    Args:
        folder: where `train_32x32.mat` and `test_32x32.mat` lie

    Raises:
        UserError: scipy is not installed, or a file is damaged or holds something else
    """
    return Source(CLASSES, _read_matlab(folder / TRAIN.name), _read_matlab(folder / TEST.name))


def _read_matlab(path: Path) -> Examples:
    try:
        from scipy.io import loadmat
    except ImportError:
        raise UserError(
            "svhn: scipy, which reads its MATLAB files, is not installed; run `pip install 'soar[svhn]'`"
        ) from None
    try:
        contents = loadmat(path, variable_names=["X", "y"])
    except Exception as error:  # scipy lets many kinds of exception out of a damaged file
        raise UserError(
            f"{path}: not a readable MATLAB file ({error}); run `soar data verify svhn`"
        ) from None
    for name in ("X", "y"):
        if name not in contents:
            raise UserError(f"{path}: variable '{name}' is missing, expected 'X' and 'y'")
    pixels, labels = contents["X"], contents["y"].reshape(-1)
    if pixels.dtype != np.uint8 or pixels.ndim != 4 or pixels.shape[:3] != (32, 32, 3):
        raise UserError(f"{path}: X is {pixels.dtype} of shape {pixels.shape}, expected uint8 (32, 32, 3, N)")
    images = np.ascontiguousarray(pixels.transpose(3, 2, 0, 1))
    digits = np.where(labels == 10, 0, labels)
    return examples(images, digits, num_classes=len(CLASSES), where=str(path))
