"""Orthonormal cosine waves, the basis of the discrete cosine transform."""

from __future__ import annotations

import math
from functools import lru_cache

import torch
from torch import Tensor


@lru_cache(maxsize=8)
def dct_matrix(size: int, dtype: torch.dtype = torch.float64, device: torch.device | str = "cpu") -> Tensor:
    r"""Return the orthonormal DCT-II as a matrix: row u is the wave of frequency u.

    C_{u j} = sqrt((2 - [u = 0]) / n) cos(pi (2 j + 1) u / (2 n))

    Args:
        size: n, the number of samples and of waves
        dtype: the type of the result
        device: where the result is

    >>> dct_matrix(2)
    tensor([[ 0.7071,  0.7071],
            [ 0.7071, -0.7071]], dtype=torch.float64)
    """
    place = torch.arange(size, dtype=torch.float64)
    waves = (math.pi * (2 * place + 1) * place[:, None] / (2 * size)).cos() * math.sqrt(2 / size)
    waves[0] /= math.sqrt(2)
    return waves.to(device, dtype)


def dct_waves(down: Tensor, across: Tensor, like: Tensor) -> Tensor:
    """Return one two-dimensional wave of length 1 an example.

    Adding a multiple of it to an image changes one coefficient of the image's transform and no other.

    Args:
        down: frequency along the rows, from 0 to height - 1, one an example
        across: frequency along the columns
        like: images of the wanted height, width, type and device

    >>> dct_waves(torch.tensor([0]), torch.tensor([1]), torch.zeros(1, 1, 2, 2))[0]
    tensor([[ 0.5000, -0.5000],
            [ 0.5000, -0.5000]])
    """
    rows = dct_matrix(like.shape[-2], like.dtype, like.device)[down]
    columns = dct_matrix(like.shape[-1], like.dtype, like.device)[across]
    return rows[:, :, None] * columns[:, None]
