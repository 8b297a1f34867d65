"""Filters against SciPy's, which the authors' code uses, and motion blur against its definition."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import ndimage

from soar.data.corruptions import filters
from soar.data.corruptions.draws import Floats
from soar.data.corruptions.filters import Border

MODES: dict[Border, str] = {"edge": "nearest", "reflect": "mirror", "symmetric": "reflect"}
IMAGES = np.random.default_rng(0).random((2, 3, 12, 9))


@pytest.mark.parametrize(("sigma", "truncate", "border"), [
    (0.4, 4.0, "edge"), (2.3, 3.0, "symmetric"), (0.7, 4.0, "reflect"), (30.0, 3.0, "symmetric"),
])  # fmt: skip
def test_gaussian_is_that_of_scipy(sigma: float, truncate: float, border: Border) -> None:
    expected = ndimage.gaussian_filter(IMAGES, (0, 0, sigma, sigma), mode=MODES[border], truncate=truncate)
    np.testing.assert_allclose(filters.gaussian(IMAGES, sigma, truncate, border), expected, atol=1e-14)


def test_gaussian_without_width_changes_nothing() -> None:
    np.testing.assert_array_equal(filters.gaussian(IMAGES, 0.0), IMAGES)


@pytest.mark.parametrize("size", [9, 28, 32, 64])
@pytest.mark.parametrize("factor", [1.0, 1.01, 1.06, 1.25, 1.75, 2.25, 4.5])
def test_zoom_is_that_of_scipy(size: int, factor: float) -> None:
    values = np.random.default_rng(size).random(size)
    inner = math.ceil(size / factor)
    begin = (size - inner) // 2
    zoomed = ndimage.zoom(values[begin : begin + inner], factor, order=1)
    begin = (len(zoomed) - size) // 2
    found = filters.zoom_matrix(size, factor) @ values
    np.testing.assert_allclose(found, zoomed[begin : begin + size], atol=1e-12)


@pytest.mark.parametrize(("radius", "softness"), [(0.3, 0.4), (1.5, 0.1), (3.0, 0.1), (10.0, 0.5)])
def test_convolution_with_a_disk_is_that_of_scipy(radius: float, softness: float) -> None:
    kernel = filters.disk(radius, softness)
    # A disk that reaches the border of its array is mirrored there when its edge is softened.
    assert kernel.sum() == pytest.approx(1, abs=1e-12 if radius < 8 else 0.02)
    expected = ndimage.convolve(IMAGES, kernel[None, None], mode="mirror")
    np.testing.assert_allclose(filters.convolve(IMAGES, kernel), expected, atol=1e-14)


@pytest.mark.parametrize("border", [*MODES])
def test_sampling_between_pixels_is_that_of_scipy(border: Border) -> None:
    numbers = np.random.default_rng(1)
    rows, columns = numbers.uniform(-30, 40, (2, 2, 5, 4))
    found = filters.sample(IMAGES, rows, columns, border)
    for image in range(2):
        for channel in range(3):
            expected = ndimage.map_coordinates(
                IMAGES[image, channel], (rows[image], columns[image]), order=1, mode=MODES[border]
            )
            np.testing.assert_allclose(found[image, channel], expected, atol=1e-14)


@pytest.mark.parametrize(
    ("angle", "step"), [(0.0, (0, 1)), (90.0, (1, 0)), (-45.0, (-1, 1)), (180.0, (0, -1))]
)
def test_motion_is_half_of_a_gaussian_along_its_direction(angle: float, step: tuple[int, int]) -> None:
    radius, sigma = 3, 1.5
    # Along a diagonal every step moves by 0.7 pixels, so that some pixels are met twice.
    places = [
        tuple(math.ceil(number * part / math.hypot(*step) - 0.5) for part in step)
        for number in range(2 * radius + 1)
    ]
    weights = [math.exp(-(number**2) / (2 * sigma**2)) for number in range(2 * radius + 1)]
    expected = np.zeros_like(IMAGES)
    for (down, right), weight in zip(places, weights, strict=True):
        rows = np.clip(np.arange(12) + down, 0, 11)
        columns = np.clip(np.arange(9) + right, 0, 8)
        expected += weight / sum(weights) * IMAGES[:, :, rows][..., columns]
    np.testing.assert_allclose(filters.motion(IMAGES, radius, sigma, np.array([angle] * 2)), expected)


def test_motion_moves_each_image_in_its_own_direction() -> None:
    both = filters.motion(IMAGES, 3, 1.5, np.array([10.0, 70.0]))
    alone: list[Floats] = [
        filters.motion(IMAGES[i : i + 1], 3, 1.5, np.array([a])) for i, a in ((0, 10.0), (1, 70.0))
    ]
    np.testing.assert_array_equal(both, np.concatenate(alone))
