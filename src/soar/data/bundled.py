"""The sample of Fashion-MNIST inside the package: something real to train on without a download."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from soar.data.fashion_mnist import CLASSES
from soar.data.files import File
from soar.data.source import Examples, Pixels, Source

FOLDER = Path(__file__).parent / "fashion_mnist_sample"
FILES = (
    File("train.png", 3_959_335, "0e1290d34f91c163301a68077ff64ff0"),
    File("test.png", 793_422, "689a206bb342cfbc82f422f13e08f1b2"),
    File("labels.npz", 28_086, "f937e4fc5dbb8f3371c5546011ea9de9"),
)


def read() -> Source:
    """Read the first 1,000 training and 200 test images of every class, in file order.

    Images lie below one another in a picture 28 pixels wide, which is the smallest of the formats
    that unpack in a tenth of a second; labels and the positions in the full files lie in an .npz.
    """
    with np.load(FOLDER / "labels.npz", allow_pickle=False) as arrays:
        train, test = (
            Examples(
                _read_sprite(FOLDER / f"{part}.png"),
                arrays[f"{part}_labels"].astype(np.int64),
                arrays[f"{part}_indices"].astype(np.int64),
            )
            for part in ("train", "test")
        )
    return Source(CLASSES, train, test)


def _read_sprite(path: Path) -> Pixels:
    from PIL import Image

    with Image.open(path) as picture:
        return np.array(picture).reshape(-1, 1, 28, 28)
