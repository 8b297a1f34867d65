"""Patches of training images: windows of another image (CutMix), and black ones (random erasing).

All draws are a pure function of (seed, epoch, example).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from soar import randomness
from soar.data.stored import Pixels

Boxes = NDArray[np.int64]
# Zhong et al.: shares of the area, and height over width or the inverse.
_LEAST_ERASED, _MOST_ERASED, _LONGEST = 0.02, 1 / 3, 1 / 0.3


class Mixing(NamedTuple):
    """How CutMix changes each of some examples.

    Args:
        boxes: top, bottom, left and right of the window; empty for images that stay as they are
        partners: from 0 to 1, which other image the window shows
        takes_label: whether the example gets the label of the other image
    """

    boxes: Boxes
    partners: NDArray[np.float32]
    takes_label: NDArray[np.bool_]


def draw_mixing(
    indices: Tensor, probability: float, height: int, width: int, *, seed: int, epoch: int
) -> Mixing:
    """Draw windows as Yun et al. (*CutMix*, 2019) do: a share of the area uniform in [0, 1], any center.

    The label is that of the other image with a probability equal to the window's share of the area, so that
    the expected loss is the mean of both losses, weighted by area. Every objective can learn from one label,
    and few from two.

    Args:
        indices: the identities of the examples
        probability: how often an image gets a window
        height: of the images
        width: of the images
        seed: the seed of the run
        epoch: the number of the epoch
    """
    chance, share, down, right, partner, label = _draws(indices, "cutmix", 6, seed=seed, epoch=epoch)
    sides = np.sqrt(share) * (chance < probability)
    boxes = _boxes(down * height, right * width, sides * height, sides * width, height, width)
    areas = (boxes[:, 1] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 2])
    return Mixing(boxes, partner, label < areas / (height * width))


def draw_erasing(
    indices: Tensor, probability: float, height: int, width: int, *, seed: int, epoch: int
) -> Boxes:
    """Draw windows as Zhong et al. (*Random Erasing*, 2020) do: 2% to a third of the area, any proportions.

    Args:
        indices: the identities of the examples
        probability: how often an image gets a window
        height: of the images
        width: of the images
        seed: the seed of the run
        epoch: the number of the epoch

    Returns:
        Top, bottom, left and right, shape (N, 4); empty where the image stays as it is.
    """
    chance, share, form, down, right = _draws(indices, "erasing", 5, seed=seed, epoch=epoch)
    area = (_LEAST_ERASED + (_MOST_ERASED - _LEAST_ERASED) * share) * (chance < probability)
    form = _LONGEST ** (form - 0.5)
    high = np.minimum(np.sqrt(area) * form, 1) * height
    wide = np.minimum(np.sqrt(area) / form, 1) * width
    # Inside the image as a whole.
    return _boxes(
        high / 2 + down * (height - high), wide / 2 + right * (width - wide), high, wide, height, width
    )


def paste(images: Pixels, others: Pixels, boxes: Boxes) -> None:
    """Copy a window of each other image into its image, in place."""
    for image, other, (top, bottom, left, right) in zip(images, others, boxes, strict=True):
        image[:, top:bottom, left:right] = other[:, top:bottom, left:right]


def erase(images: Pixels, boxes: Boxes) -> None:
    """Blacken a window of each image, in place."""
    for image, (top, bottom, left, right) in zip(images, boxes, strict=True):
        image[:, top:bottom, left:right] = 0


def _draws(
    indices: Tensor, stream: str, count: int, *, seed: int, epoch: int
) -> tuple[NDArray[np.float32], ...]:
    return tuple(randomness.uniform(randomness.key(seed, indices, stream, epoch), (count,)).numpy().T)


def _boxes(
    down: NDArray[np.float32],
    right: NDArray[np.float32],
    high: NDArray[np.float32],
    wide: NDArray[np.float32],
    height: int,
    width: int,
) -> Boxes:
    """Return windows around centers, cut off at the border."""
    ends = (down - high / 2, down + high / 2, right - wide / 2, right + wide / 2)
    limits = np.array([height, height, width, width])
    return np.asarray(np.clip(np.rint(np.stack(ends, axis=1)), 0, limits).astype(np.int64))
