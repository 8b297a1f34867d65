"""What cameras and files do: low contrast, elastic distortion, large pixels, JPEG."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from soar.data.corruptions import filters
from soar.data.corruptions.draws import Draws, Floats

if TYPE_CHECKING:
    from PIL import Image


def contrast(images: Floats, draws: Draws, kept: float) -> Floats:  # noqa: ARG001
    """Bring each channel nearer to its mean."""
    means = images.mean(axis=(2, 3), keepdims=True)
    return np.asarray((images - means) * kept + means)


def elastic_transform(images: Floats, draws: Draws, amount: float, sigma: float, jitter: float) -> Floats:
    """Move three points at random and the image with them, then each pixel by a smooth random field.

    Args:
        images: a batch
        draws: the random numbers
        amount: the size of the field, as a share of the shorter side
        sigma: how smooth it is, the same
        jitter: how far the three points move, the same
    """
    height, width = images.shape[2:]
    side = min(height, width)
    center, reach = np.array([height, width]) // 2, side // 3
    points = center + reach * np.array([[1, 1], [1, -1], [-1, -1]])
    moved = points + jitter * side * (2 * draws.uniform("points", 3, 2) - 1)
    # Rows and columns in the image of each place in the result: the map that takes the points back.
    ones = np.ones((len(images), 3, 1))
    back = np.linalg.solve(np.concatenate([moved, ones], axis=2), np.broadcast_to(points, moved.shape))
    grid = np.stack([*np.mgrid[:height, :width], np.ones((height, width))], axis=-1)
    rows, columns = np.moveaxis(grid.reshape(-1, 3) @ back, -1, 0).reshape(2, len(images), height, width)
    turned = filters.sample(images, rows, columns, "reflect")
    down, right = (
        amount
        * side
        * filters.gaussian(2 * draws.uniform(axis, height, width) - 1, sigma * side, 3.0, "symmetric")
        for axis in ("down", "right")
    )
    return filters.sample(turned, grid[..., 0] + down, grid[..., 1] + right, "symmetric")


def pixelate(images: Floats, draws: Draws, share: float) -> Floats:  # noqa: ARG001
    """Shrink to a share of the size by means over boxes, and enlarge again."""
    from PIL import Image

    height, width = images.shape[2:]
    small = max(1, int(width * share)), max(1, int(height * share))
    box = Image.Resampling.BOX
    return _each(images, lambda one: one.resize(small, box).resize((width, height), box))


def jpeg_compression(images: Floats, draws: Draws, quality: float) -> Floats:  # noqa: ARG001
    """Save as JPEG and read again."""
    from PIL import Image

    def saved(one: Image.Image) -> Image.Image:
        file = io.BytesIO()
        one.save(file, "JPEG", quality=int(quality))
        return Image.open(file, formats=["JPEG"])

    return _each(images, saved)


def _each(images: Floats, change: Callable[[Image.Image], Image.Image]) -> Floats:
    """Apply a function of Pillow to every image."""
    from PIL import Image

    pixels = np.rint(255 * images).astype(np.uint8).transpose(0, 2, 3, 1)
    made = [np.asarray(change(Image.fromarray(one[..., 0] if one.shape[2] == 1 else one))) for one in pixels]
    return np.stack(made).reshape(pixels.shape).transpose(0, 3, 1, 2) / 255
