"""Random crops and mirror images, each a pure function of (seed, epoch, example)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from torch import Tensor

from soar import randomness
from soar.data.source import Integers, Pixels
from soar.errors import UserError


@dataclass(frozen=True)
class Augmentation:
    """How training images are varied; the default leaves them as they are.

    Args:
        crop: pixels added on every side before a window of the original size is cut out at random
        pad: what is added: black ("zero") or the image mirrored at its edge ("reflect")
        flip: whether every second image, at random, is mirrored left to right
    """

    crop: int = 0
    pad: Literal["zero", "reflect"] = "zero"
    flip: bool = False

    def __post_init__(self) -> None:
        if self.crop < 0:
            raise UserError(f"augmentation.crop: got {self.crop}, allowed are 0 and more pixels")
        if self.pad not in ("zero", "reflect"):
            raise UserError(f"augmentation.pad: got '{self.pad}', allowed are zero, reflect")


@dataclass(frozen=True, eq=False)
class Moves:
    """What happens to each image: where its window begins in the padded image, and is it mirrored."""

    top: Integers
    left: Integers
    mirrored: NDArray[np.bool_]

    def __getitem__(self, rows: slice) -> Moves:
        return Moves(self.top[rows], self.left[rows], self.mirrored[rows])


def draw_moves(augmentation: Augmentation, indices: Tensor, *, seed: int, epoch: int) -> Moves:
    """Draw the moves of many examples at once; an example's own do not depend on the others.

    Args:
        augmentation: what may be drawn
        indices: the identities of the examples
        seed: the seed of the run
        epoch: the number of the epoch
    """
    crops = randomness.key(seed, indices, "crop", epoch)
    places = randomness.integers(crops, 2 * augmentation.crop + 1, (2,)).numpy()
    flips = randomness.key(seed, indices, "flip", epoch)
    mirrored = randomness.integers(flips, 2).numpy() == 1
    return Moves(places[:, 0], places[:, 1], mirrored & augmentation.flip)


def augment(images: Pixels, moves: Moves, augmentation: Augmentation) -> Pixels:
    """Crop, then mirror, all images of a batch without a loop over them.

    Args:
        images: a batch that may be overwritten, shape (N, channels, height, width)
        moves: one for each image
        augmentation: how to pad

    Raises:
        UserError: the image is too small to be mirrored so far
    """
    if augmentation.crop:
        padded = _pad(images, augmentation)
        windows = sliding_window_view(padded, images.shape[2:], axis=(2, 3))
        images = windows[np.arange(len(images)), :, moves.top, moves.left]
    if augmentation.flip:
        images[moves.mirrored] = images[moves.mirrored][..., ::-1]
    return images


def _pad(images: Pixels, augmentation: Augmentation) -> Pixels:
    count, channels, height, width = images.shape
    extra = augmentation.crop
    if augmentation.pad == "reflect":
        if extra >= min(height, width):
            raise UserError(
                f"augmentation.crop: got {extra}, allowed is less than {min(height, width)} for "
                f"images of {height} x {width} with augmentation.pad = reflect"
            )
        return np.pad(images, ((0, 0), (0, 0), (extra, extra), (extra, extra)), "reflect")
    padded = np.zeros((count, channels, height + 2 * extra, width + 2 * extra), np.uint8)
    padded[:, :, extra : extra + height, extra : extra + width] = images
    return padded
