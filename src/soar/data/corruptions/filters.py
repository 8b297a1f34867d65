"""Linear filters of images in float64, shape (examples, channels, height, width), without an image library.

A filter of rows or columns is a matrix, so that a batch is filtered by two products of matrices.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

import numpy as np

from soar.data.corruptions.draws import Floats, Integers

Border = Literal["edge", "reflect", "symmetric"]
"""what lies beyond the border, in numpy's words: aaa|abc, cb|abc or ba|abc"""


def along(rows: Floats, images: Floats, columns: Floats) -> Floats:
    """Apply one matrix to the columns of every image and another to its rows."""
    return np.asarray(rows @ images @ columns.T)


def gaussian(images: Floats, sigma: float, truncate: float = 4.0, border: Border = "edge") -> Floats:
    """Blur by a Gaussian, as scikit-image does.

    Args:
        images: a batch, or one image
        sigma: its standard deviation in pixels; 0 changes nothing
        truncate: after how many standard deviations it ends
        border: what lies beyond the border
    """
    height, width = images.shape[-2:]
    rows, columns = (gaussian_matrix(size, sigma, truncate, border) for size in (height, width))
    return along(rows, images, columns)


@lru_cache(maxsize=64)
def gaussian_matrix(size: int, sigma: float, truncate: float, border: Border) -> Floats:
    """Return the matrix of a Gaussian filter along one axis.

    >>> gaussian_matrix(3, 0.5, 4.0, "edge").round(3)
    array([[0.893, 0.106, 0.   ],
           [0.107, 0.787, 0.107],
           [0.   , 0.106, 0.893]])
    """
    radius = int(truncate * sigma + 0.5)
    weights = gaussian_weights(radius, sigma)
    matrix = np.zeros((size, size))
    places = np.pad(np.arange(size), radius, mode=border)
    for offset, weight in enumerate(weights):
        np.add.at(matrix, (np.arange(size), places[offset : offset + size]), weight)
    return matrix


def gaussian_weights(radius: int, sigma: float) -> Floats:
    """Return the weights of a Gaussian at -radius ... radius, which add up to 1."""
    at = np.arange(-radius, radius + 1)
    weights = np.exp(-0.5 * (at / sigma) ** 2) if radius else np.ones(1)
    return np.asarray(weights / weights.sum())


@lru_cache(maxsize=64)
def zoom_matrix(size: int, factor: float) -> Floats:
    """Return the matrix that magnifies the middle of an axis to its whole length, by linear interpolation.

    >>> zoom_matrix(4, 2.0).round(2)
    array([[0.  , 1.  , 0.  , 0.  ],
           [0.  , 0.67, 0.33, 0.  ],
           [0.  , 0.33, 0.67, 0.  ],
           [0.  , 0.  , 1.  , 0.  ]])
    """
    inner = int(np.ceil(size / factor))
    first = (size - inner) // 2
    whole = round(inner * factor)
    at = np.arange(whole) * (inner - 1) / max(whole - 1, 1)
    at = at[(whole - size) // 2 :][:size]
    low = np.minimum(at.astype(int), inner - 1)
    matrix = np.zeros((size, size))
    matrix[np.arange(size), first + low] = 1 - (at - low)
    matrix[np.arange(size), first + np.minimum(low + 1, inner - 1)] += at - low
    return matrix


def convolve(images: Floats, kernel: Floats) -> Floats:
    """Convolve every channel with a symmetric kernel of odd size; images go on reflected at their border."""
    height, width = images.shape[-2:]
    up, left = (size // 2 for size in kernel.shape)
    padded = np.pad(images, ((0, 0), (0, 0), (up, up), (left, left)), mode="reflect")
    made = np.zeros_like(images)
    for row, column in np.argwhere(kernel):
        made += kernel[row, column] * padded[..., row : row + height, column : column + width]
    return made


def disk(radius: float, softness: float) -> Floats:
    """Return a kernel with the shape of a disk whose edge is softened by a Gaussian, as the authors do.

    Its weights add up to 1 for radii below 8, and up to 1.011 beyond, where its edge is that of the kernel.

    >>> disk(1.0, 0.01)[7:10, 7:10].round(1)
    array([[0. , 0.2, 0. ],
           [0.2, 0.2, 0.2],
           [0. , 0.2, 0. ]])
    """
    reach = 8 if radius <= 8 else int(radius)
    squares = np.arange(-reach, reach + 1) ** 2
    sharp = (squares[:, None] + squares <= radius**2).astype(np.float64)
    soft = gaussian_weights(1 if radius <= 8 else 2, softness)
    return np.asarray(convolve((sharp / sharp.sum())[None, None], np.outer(soft, soft))[0, 0])


def motion(images: Floats, radius: float, sigma: float, angles: Floats) -> Floats:
    """Blur each image in a direction of its own, by half of a Gaussian, as ImageMagick does.

    Args:
        images: a batch
        radius: how far the Gaussian reaches, half the pixels
        sigma: its standard deviation in pixels
        angles: the direction of each image in degrees
    """
    count = 2 * int(np.ceil(radius)) + 1
    weights = np.exp(-0.5 * (np.arange(count) / sigma) ** 2)
    weights /= weights.sum()
    height, width = images.shape[-2:]
    which = np.arange(len(images))[:, None, None]
    radians = np.deg2rad(angles)[:, None]
    made = np.zeros_like(images)
    for step, weight in enumerate(weights):
        down, right = (np.ceil(step * f(radians) - 0.5).astype(int) for f in (np.sin, np.cos))
        rows = np.clip(np.arange(height) + down, 0, height - 1)[:, :, None]
        columns = np.clip(np.arange(width) + right, 0, width - 1)[:, None, :]
        made += weight * np.moveaxis(images[which, :, rows, columns], -1, 1)
    return made


def sample(images: Floats, rows: Floats, columns: Floats, border: Border) -> Floats:
    """Read images between their pixels, by bilinear interpolation.

    Args:
        images: a batch
        rows: where to read, shape (examples, height, width); may lie beyond the border
        columns: the same
        border: what lies beyond it
    """
    which = np.arange(len(images))[:, None, None]
    height, width = images.shape[-2:]
    top, left = np.floor(rows), np.floor(columns)
    made = np.zeros((*rows.shape, images.shape[1]))
    for down in (0, 1):
        for right in (0, 1):
            weight = np.abs(1 - down - (rows - top)) * np.abs(1 - right - (columns - left))
            places = _inside(top + down, height, border), _inside(left + right, width, border)
            made += weight[..., None] * images[which, :, *places]
    return np.moveaxis(made, -1, 1)


def _inside(places: Floats, size: int, border: Border) -> Integers:
    """Return which pixel lies at each place, where the axis goes on beyond its ends.

    >>> for border in ("edge", "reflect", "symmetric"):
    ...     _inside(np.arange(-4.0, 6.0), 3, border)
    array([0, 0, 0, 0, 0, 1, 2, 2, 2, 2])
    array([0, 1, 2, 1, 0, 1, 2, 1, 0, 1])
    array([2, 2, 1, 0, 0, 1, 2, 2, 1, 0])
    """
    whole = places.astype(np.int64)
    if border == "edge":
        return np.clip(whole, 0, size - 1)
    period = max(2 * size - 2, 1) if border == "reflect" else 2 * size
    around = whole % period
    return np.asarray(
        np.where(around < size, around, (period if border == "reflect" else period - 1) - around)
    )
