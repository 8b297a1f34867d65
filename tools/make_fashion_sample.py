"""Make the Fashion-MNIST sample that the package carries from the four original idx files.

    python tools/make_fashion_sample.py FOLDER_WITH_IDX_FILES

The first 1,000 training and the first 200 test images of every class are kept, in file order.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from soar.data import Split, published
from soar.data.files import BUNDLED_FOLDER


def first_of_each_class(part: Split, *, count: int) -> Split:
    """Keep the first `count` examples of every class."""
    by_class = [(part.labels == label).nonzero()[:count, 0] for label in range(10)]
    return part.subset(torch.cat(by_class).sort().values)


def main(source: Path) -> None:
    """Write train.png, test.png and labels.npz beside the license in the package."""
    full = published.fashion_mnist(source)
    parts = {
        "train": first_of_each_class(full.train, count=1000),
        "test": first_of_each_class(full.test, count=200),
    }
    for name, part in parts.items():
        picture = Image.fromarray(part.images.reshape(-1, 28).numpy())
        picture.save(BUNDLED_FOLDER / f"{name}.png", optimize=True)
    np.savez_compressed(
        BUNDLED_FOLDER / "labels.npz",
        train_labels=parts["train"].labels.numpy().astype(np.uint8),
        train_indices=parts["train"].indices.numpy().astype(np.uint16),
        test_labels=parts["test"].labels.numpy().astype(np.uint8),
        test_indices=parts["test"].indices.numpy().astype(np.uint16),
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
