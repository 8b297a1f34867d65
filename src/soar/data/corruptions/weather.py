"""Weather: snow, frost, fog and bright light."""

from __future__ import annotations

import numpy as np

from soar.data.corruptions import filters
from soar.data.corruptions.draws import Draws, Floats

# The color of ice, and how bright red, green and blue are.
_ICE = np.array([0.82, 0.92, 1.0])
_LUMINANCE = np.array([0.299, 0.587, 0.114])


def snow(
    images: Floats,
    draws: Draws,
    mean: float,
    deviation: float,
    zoom: float,
    least: float,
    radius: float,
    sigma: float,
    kept: float,
) -> Floats:
    """Let flakes fall, noise above `least` that is magnified and smeared, over a paler image."""
    height, width = images.shape[2:]
    flakes = mean + deviation * draws.normal("flakes", 1, height, width)
    rows, columns = (filters.zoom_matrix(size, zoom) for size in (height, width))
    flakes = filters.along(rows, flakes, columns)
    flakes = np.floor(255 * np.clip(np.where(flakes < least, 0, flakes), 0, 1)) / 255
    flakes = filters.motion(flakes, radius, sigma, 90 * draws.uniform("angle") - 135)
    pale = np.maximum(images, 1.5 * gray(images) + 0.5)
    return np.asarray(kept * images + (1 - kept) * pale + flakes + flakes[..., ::-1, ::-1])


def frost(images: Floats, draws: Draws, kept: float, amount: float) -> Floats:
    """Lay a texture of ice over the image."""
    ice = frost_texture(draws, *images.shape[2:])
    if images.shape[1] == 1:
        ice = gray(ice)
    return kept * images + amount * ice


def frost_texture(draws: Draws, height: int, width: int) -> Floats:
    """Make a texture of ice, shape (examples, 3, height, width): needles in three directions.

    The authors cut theirs out of photographs, which do not come with this package. This one is drawn, so
    accuracies under frost are not comparable with those on the authors' files.
    """
    cloud = plasma(draws, height, width, 2.0)[:, None]
    needles = np.zeros_like(cloud)
    for place in range(3):
        seeds = draws.uniform(f"needles {place}", 1, height, width)
        sharp = np.where(seeds > 0.96, 12 * (seeds - 0.96) / 0.04, 0)
        needles += filters.motion(sharp, 5, 4, 360 * draws.uniform(f"angle {place}"))
    return np.asarray(np.clip(0.2 + 0.5 * cloud + 0.7 * needles, 0, 1) * _ICE[:, None, None])


def fog(images: Floats, draws: Draws, amount: float, decay: float) -> Floats:
    """Add clouds of light, and scale each image back to its brightest value."""
    brightest = images.max(axis=(1, 2, 3), keepdims=True)
    clouds = plasma(draws, images.shape[2], images.shape[3], decay)[:, None]
    return np.asarray((images + amount * clouds) * brightest / (brightest + amount))


def plasma(draws: Draws, height: int, width: int, decay: float) -> Floats:
    """Draw clouds from 0 to 1 by the diamond-square algorithm, shape (examples, height, width).

    Args:
        draws: the random numbers
        height: of what is cut out of a square whose side is a power of two
        width: the same
        decay: by how much the roughness falls each time the grid is halved
    """
    side = 1 << max(height - 1, width - 1, 1).bit_length()
    rough = 2 * draws.uniform("plasma", side, side) - 1
    field = np.zeros_like(rough)
    step, wobble = side, 100.0

    def around(total: Floats, rows: slice, columns: slice) -> Floats:
        return np.asarray(total / 4 + wobble**2 * rough[:, rows, columns])

    while step >= 2:
        at, between = slice(0, side, step), slice(step // 2, side, step)
        corners = field[:, at, at]
        pairs = corners + np.roll(corners, -1, axis=1)
        field[:, between, between] = around(pairs + np.roll(pairs, -1, axis=2), between, between)
        centers, corners = field[:, between, between], field[:, at, at]
        beside = centers + np.roll(centers, 1, axis=1) + corners + np.roll(corners, -1, axis=2)
        field[:, at, between] = around(beside, at, between)
        above = centers + np.roll(centers, 1, axis=2) + corners + np.roll(corners, -1, axis=1)
        field[:, between, at] = around(above, between, at)
        step //= 2
        wobble /= decay
    field -= field.min(axis=(1, 2), keepdims=True)
    return np.asarray((field / field.max(axis=(1, 2), keepdims=True))[:, :height, :width])


def brightness(images: Floats, draws: Draws, amount: float) -> Floats:  # noqa: ARG001
    """Add to the value of hue, saturation and value; the other two stay as they are."""
    value = images.max(axis=1, keepdims=True)
    brighter = np.clip(value + amount, 0, 1)
    return np.asarray(np.where(value > 0, images * brighter / np.maximum(value, 1e-300), brighter))


def gray(images: Floats) -> Floats:
    """Return the luminance, shape (examples, 1, height, width)."""
    if images.shape[1] == 1:
        return images
    return np.asarray(np.einsum("nchw,c->nhw", images, _LUMINANCE)[:, None])
