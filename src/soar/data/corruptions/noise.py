"""Noise: Gaussian, shot (Poisson) and impulse (salt and pepper)."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from soar.data.corruptions.draws import Draws, Floats

# Shot noise needs the probabilities of counts up to so many standard deviations above the mean.
_REACH = 10


def gaussian_noise(images: Floats, draws: Draws, deviation: float) -> Floats:
    """Add normal noise."""
    return images + deviation * draws.normal("noise", *images.shape[1:])


def shot_noise(images: Floats, draws: Draws, photons: float) -> Floats:
    """Count photons: Poisson with a mean of `photons` for white, by inverting its distribution."""
    values, which = np.unique(images, return_inverse=True)
    # Each row of the table continues where the one before ends, so that one search serves all pixels.
    table = _poisson_table(tuple(values * photons))
    rows = which.reshape(images.shape)
    places = np.searchsorted(
        (table + np.arange(len(values))[:, None]).ravel(), draws.uniform("photons", *images.shape[1:]) + rows
    )
    return np.asarray((places - rows * table.shape[1]) / photons)


@lru_cache(maxsize=8)
def _poisson_table(means: tuple[float, ...]) -> Floats:
    """Return P(count <= k) for every mean, shape (means, counts); the last count has all the rest.

    >>> _poisson_table((0.0, 1.0))[:, :3].round(3)
    array([[1.   , 1.   , 1.   ],
           [0.368, 0.736, 0.92 ]])
    """
    most = int(max(means) + _REACH * np.sqrt(max(means)) + _REACH)
    counts = np.arange(most + 1)
    factorials = np.concatenate([[0.0], np.cumsum(np.log(counts[1:]))])
    rates = np.array(means)[:, None]
    logs = counts * np.log(np.maximum(rates, 1e-300)) - rates - factorials
    table = np.minimum(np.cumsum(np.exp(logs), axis=1), 1.0)
    table[:, -1] = 1.0
    return np.asarray(table)


def impulse_noise(images: Floats, draws: Draws, share: float) -> Floats:
    """Replace a share of all values by black or white, one as likely as the other."""
    hit = draws.uniform("hit", *images.shape[1:]) < share
    white = draws.uniform("white", *images.shape[1:]) < 0.5
    return np.where(hit, white.astype(np.float64), images)
