"""Blur: out of focus, through frosted glass, by motion, by zooming."""

from __future__ import annotations

import numpy as np

from soar.data.corruptions import filters
from soar.data.corruptions.draws import Draws, Floats


def defocus_blur(images: Floats, draws: Draws, radius: float, softness: float) -> Floats:  # noqa: ARG001
    """Convolve with a disk."""
    return filters.convolve(images, filters.disk(radius, softness))


def glass_blur(images: Floats, draws: Draws, sigma: float, reach: float, rounds: float) -> Floats:
    """Blur a little, let every pixel take the color of one nearby, and blur again.

    The authors meant to swap two pixels, but their code copies one over the other; so does this, as in the
    published files.
    """
    soft = np.floor(filters.gaussian(images, sigma) * 255 + 1e-6) / 255
    count, height, width = len(images), *images.shape[2:]
    most = int(reach)
    moves = draws.integers("moves", 2 * most, int(rounds), height, width, 2) - most
    which = np.arange(count)
    # Where each pixel's color comes from: cheaper to move about than the color itself.
    source = np.broadcast_to(np.arange(height * width).reshape(height, width), (count, height, width)).copy()
    for step in range(int(rounds)):
        for row in range(height - most, most, -1):
            for column in range(width - most, most, -1):
                down, right = moves[:, step, row, column].T
                source[:, row, column] = source[which, row + down, column + right]
    flat = soft.reshape(*soft.shape[:2], -1)
    mixed = np.take_along_axis(flat, source.reshape(count, 1, -1), axis=2).reshape(images.shape)
    return filters.gaussian(mixed, sigma)


def motion_blur(images: Floats, draws: Draws, radius: float, sigma: float) -> Floats:
    """Blur each image in a direction within 45 degrees of the horizontal."""
    return filters.motion(images, radius, sigma, 90 * draws.uniform("angle") - 45)


def zoom_blur(images: Floats, draws: Draws, end: float, step: float) -> Floats:  # noqa: ARG001
    """Take the mean of the image and its magnifications by 1, 1 + step, ... up to `end`."""
    factors = np.arange(1, end, step)
    made = images.copy()
    for factor in factors:
        rows, columns = (filters.zoom_matrix(size, float(factor)) for size in images.shape[2:])
        made += filters.along(rows, images, columns)
    return made / (len(factors) + 1)
