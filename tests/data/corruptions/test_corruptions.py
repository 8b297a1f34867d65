"""Corruptions against closed forms, their moments and limits, and as functions of (seed, index)."""

from __future__ import annotations

import io
import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from PIL import Image
from scipy import stats
from torch import Tensor

from soar.data import load
from soar.data.corruptions import CORRUPTIONS, SEVERITIES, blur, constants, corrupt, digital, noise, weather
from soar.data.corruptions.draws import Draws, Floats
from soar.errors import UserError

GRAY = load("fashion-mnist-sample").test.first(24)
# Of three channels, which differ, and not square.
COLOR = torch.stack(
    [GRAY.images[:, 0, :, :24], GRAY.images[:, 0, :, 4:], 255 - GRAY.images[:, 0, :, 2:26]], 1
)
FLAT = torch.full((1, 3, 128, 128), 128, dtype=torch.uint8)
ROWS = torch.arange(2)


def flat(value: float, count: int = 1, side: int = 64) -> Floats:
    return np.full((count, 3, side, side), value)


def drawn(name: str, count: int = 1) -> Draws:
    return Draws(0, torch.arange(count), name)


def distance(name: str, severity: int, images: Tensor = COLOR) -> float:
    return float((corrupt(images, name, severity).double() - images).abs().mean())


def test_there_are_the_fifteen_of_the_paper() -> None:
    assert len(CORRUPTIONS) == 15
    for scale in (constants.CIFAR, constants.TINY_IMAGENET, constants.IMAGENET):
        assert tuple(scale.constants) == CORRUPTIONS
        assert all(len(one) == len(SEVERITIES) for one in scale.constants.values())


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_an_image_is_a_function_of_seed_and_index(name: str) -> None:
    index = torch.arange(100, 124)
    whole = corrupt(COLOR, name, 3, index=index, seed=1)
    assert whole.dtype == torch.uint8 and whole.shape == COLOR.shape
    rows = torch.tensor([7, 3, 21])
    torch.testing.assert_close(corrupt(COLOR[rows], name, 3, index=index[rows], seed=1), whole[rows])
    torch.testing.assert_close(corrupt(COLOR.double() / 255, name, 3, index=index, seed=1), whole)
    is_random = name not in (
        "defocus_blur", "zoom_blur", "brightness", "contrast", "pixelate", "jpeg_compression",
    )  # fmt: skip
    for other in (corrupt(COLOR, name, 3, seed=1), corrupt(COLOR, name, 3, index=index, seed=2)):
        assert torch.equal(other, whole) != is_random


@pytest.mark.parametrize("name", CORRUPTIONS)
@pytest.mark.parametrize("images", [GRAY.images, FLAT[:, :, :64, :64], FLAT[:, :1, :, :130]])
def test_every_corruption_takes_every_size(name: str, images: Tensor) -> None:
    found = corrupt(images[:2], name, 5)
    assert found.shape == images[:2].shape


@pytest.mark.parametrize("name", sorted({*CORRUPTIONS} - {"elastic_transform", "frost", "glass_blur"}))
def test_distance_grows_with_severity(name: str) -> None:
    # The constants of the other three trade one effect for another.
    distances = [distance(name, severity) for severity in SEVERITIES]
    assert all(one <= other for one, other in pairwise(distances)), distances
    assert 0 < distances[0] < distances[-1]


@pytest.mark.parametrize("scale", [constants.CIFAR, constants.TINY_IMAGENET, constants.IMAGENET])
def test_a_flat_image_stays_flat_where_only_places_change(scale: constants.BenchmarkConstants) -> None:
    side = {"CIFAR-10-C": 32, "Tiny-ImageNet-C": 64, "ImageNet-C": 128}[scale.name]
    images = torch.full((1, 3, side, side), 90, dtype=torch.uint8)
    for name in ("defocus_blur", "glass_blur", "motion_blur", "zoom_blur", "elastic_transform", "pixelate"):
        assert (corrupt(images, name, 5).int() - 90).abs().max() <= 1, name
    assert bool((corrupt(images, "contrast", 5) == 90).all())


def test_gaussian_noise_has_its_moments() -> None:
    added = noise.gaussian_noise(flat(0.5, 8), drawn("gaussian_noise", 8), 0.1) - 0.5
    count = added.size
    assert abs(added.mean()) < 4 * 0.1 / math.sqrt(count)
    assert abs(added.std() - 0.1) < 4 * 0.1 / math.sqrt(2 * count)
    assert stats.kstest(added.ravel() / 0.1, "norm").pvalue > 1e-3


@pytest.mark.parametrize("photons", [3, 60, 500])
def test_shot_noise_counts_as_poisson_does(photons: int) -> None:
    images = flat(0.5, 4)
    images[:, 1] = 0.0
    counts = noise.shot_noise(images, drawn("shot_noise", 4), photons) * photons
    np.testing.assert_allclose(counts, np.round(counts), atol=1e-9)
    assert bool((counts[:, 1] == 0).all())
    bright = np.round(counts[:, 0].ravel())
    values, observed = np.unique(bright, return_counts=True)
    expected = stats.poisson(photons / 2).pmf(values) * bright.size
    common = expected >= 5
    statistic = ((observed - expected)[common] ** 2 / expected[common]).sum()
    assert stats.chi2(common.sum() - 1).sf(statistic) > 1e-3


def test_impulse_noise_hits_its_share_half_black_half_white() -> None:
    found = noise.impulse_noise(flat(0.5, 8), drawn("impulse_noise", 8), 0.27)
    count, deviation = found.size, math.sqrt(0.27 * 0.73 / found.size)
    assert abs((found != 0.5).mean() - 0.27) < 4 * deviation
    assert abs((found == 1).mean() - (found == 0).mean()) < 8 * deviation
    assert set(np.unique(found)) == {0.0, 0.5, 1.0} and count == 8 * 3 * 64 * 64


def test_brightness_adds_to_the_value_and_keeps_hue_and_saturation() -> None:
    pixel = np.array([0.2, 0.4, 0.1]).reshape(1, 3, 1, 1)
    np.testing.assert_allclose(
        weather.brightness(pixel, drawn(""), 0.2).ravel(), [0.3, 0.6, 0.15], atol=1e-15
    )
    assert weather.brightness(np.zeros((1, 3, 1, 1)), drawn(""), 0.3).ravel().tolist() == [0.3] * 3
    # Beyond white nothing is brighter: the largest channel is 1.
    np.testing.assert_allclose(weather.brightness(pixel, drawn(""), 0.9).ravel(), [0.5, 1, 0.25])


def test_contrast_keeps_means_and_shrinks_what_is_around_them() -> None:
    images = COLOR.double().numpy() / 255
    found = digital.contrast(images, drawn(""), 0.3)
    np.testing.assert_allclose(found.mean(axis=(2, 3)), images.mean(axis=(2, 3)), atol=1e-12)
    np.testing.assert_allclose(found.std(axis=(2, 3)), 0.3 * images.std(axis=(2, 3)), atol=1e-12)


def test_limits_leave_the_image_as_it_is() -> None:
    images = COLOR.double().numpy() / 255
    some = drawn("limit", len(images))
    for found in (
        noise.gaussian_noise(images, some, 0.0),
        noise.impulse_noise(images, some, 0.0),
        blur.zoom_blur(images, some, 1.005, 0.01),
        weather.fog(images, some, 0.0, 2.0),
        weather.frost(images, some, 1.0, 0.0),
        weather.brightness(images, some, 0.0),
        digital.contrast(images, some, 1.0),
        digital.elastic_transform(images, some, 0.0, 0.0, 0.0),
        digital.pixelate(images, some, 1.0),
    ):
        np.testing.assert_allclose(found, images, atol=1e-9)
    # No photon is lost in the mean of very many.
    counted = noise.shot_noise(images, some, 1e5)
    assert np.abs(counted - images).max() < 6 / math.sqrt(1e5)


def test_elastic_without_a_field_maps_the_three_points_to_where_they_moved() -> None:
    """A ramp of rows, moved by an affine map, shows at the new points the row of the old ones."""
    side, jitter = 33, 0.08
    ramp = np.broadcast_to(np.arange(side)[:, None] / 100, (1, 1, side, side)).copy()
    some = drawn("elastic_transform")
    found = digital.elastic_transform(ramp, some, 0.0, 0.0, jitter)[0, 0]
    center, reach = side // 2, side // 3
    points = center + reach * np.array([[1, 1], [1, -1], [-1, -1]])
    moved = points + jitter * side * (2 * some.uniform("points", 3, 2)[0] - 1)
    for (row, _), (down, right) in zip(points, moved, strict=True):
        top, left = int(down), int(right)
        square = found[top : top + 2, left : left + 2]
        high, wide = down - top, right - left
        here = np.array([1 - high, high]) @ square @ np.array([1 - wide, wide])
        assert here == pytest.approx(row / 100, abs=1e-12)


def test_glass_copies_colors_of_pixels_nearby_in_the_order_of_the_authors() -> None:
    """Against the loop of the authors' code, pixel by pixel."""
    images = COLOR[:2].double().numpy() / 255
    some, reach, rounds = drawn("glass_blur", 2), 2, 2
    # With a sigma this small the two blurs change nothing.
    found = np.rint(255 * blur.glass_blur(images, some, 0.05, reach, rounds))
    height, width = images.shape[2:]
    moves = some.integers("moves", 2 * reach, rounds, height, width, 2) - reach
    for number, image in enumerate(np.rint(255 * images)):
        for step in range(rounds):
            for row in range(height - reach, reach, -1):
                for column in range(width - reach, reach, -1):
                    down, right = moves[number, step, row, column]
                    image[:, row, column] = image[:, row + down, column + right]
        np.testing.assert_array_equal(found[number], image)


def test_plasma_is_the_diamond_square_of_the_authors() -> None:
    """The cells of a 4 x 4 map, in the order in which the algorithm fills them."""
    some = drawn("fog")
    rough = 2 * some.uniform("plasma", 4, 4)[0] - 1
    wobble = 100.0
    field = {(0, 0): 0.0}

    def fill(row: int, column: int, corners: list[tuple[int, int]]) -> None:
        around = [field[down % 4, right % 4] for down, right in corners]
        field[row, column] = sum(around) / 4 + wobble**2 * rough[row, column]

    for step in (4, 2):
        half, starts = step // 2, range(0, 4, step)
        for i in starts:
            for j in starts:
                corners = [(i, j), (i + step, j), (i, j + step), (i + step, j + step)]
                fill(i + half, j + half, corners)
        for i in starts:
            for j in starts:
                fill(i, j + half, [(i + half, j + half), (i - half, j + half), (i, j), (i, j + step)])
                fill(i + half, j, [(i + half, j + half), (i + half, j - half), (i, j), (i + step, j)])
        wobble /= 2.0
    expected = np.array([[field[i, j] for j in range(4)] for i in range(4)])
    expected = (expected - expected.min()) / (expected.max() - expected.min())
    np.testing.assert_allclose(weather.plasma(some, 4, 4, 2.0)[0], expected, atol=1e-12)


def test_fog_adds_clouds_and_keeps_the_brightest_value_below_its_own() -> None:
    images, some = COLOR[:2].double().numpy() / 255, drawn("fog", 2)
    clouds = weather.plasma(some, images.shape[2], images.shape[3], 2.0)[:, None]
    brightest = images.max(axis=(1, 2, 3), keepdims=True)
    expected = (images + 1.5 * clouds) * brightest / (brightest + 1.5)
    np.testing.assert_allclose(weather.fog(images, some, 1.5, 2.0), expected, atol=1e-15)
    assert not weather.fog(np.zeros((1, 1, 8, 8)), drawn("fog"), 1.0, 2.0).any()


def test_frost_is_a_weighted_sum_of_image_and_ice() -> None:
    images, some = COLOR[:2].double().numpy() / 255, drawn("frost", 2)
    ice = weather.frost_texture(some, *images.shape[2:])
    assert ice.min() >= 0 and ice.max() <= 1 and ice.std() > 0.05
    np.testing.assert_allclose(weather.frost(images, some, 0.8, 0.4), 0.8 * images + 0.4 * ice, atol=1e-15)


def test_snow_without_flakes_only_pales_the_image() -> None:
    images = COLOR[:1].double().numpy() / 255
    found = weather.snow(images, drawn("snow"), 0.0, 0.0, 1.0, 0.5, 8, 3, 0.9)
    luminance = (images * np.array([0.299, 0.587, 0.114])[:, None, None]).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(found, 0.9 * images + 0.1 * np.maximum(images, 1.5 * luminance + 0.5))


def test_files_of_pillow_are_those_of_the_corruption() -> None:
    picture = Image.fromarray(COLOR[0].permute(1, 2, 0).numpy())
    file = io.BytesIO()
    picture.save(file, "JPEG", quality=50)
    with Image.open(file) as saved:
        expected = torch.from_numpy(np.array(saved)).permute(2, 0, 1)
    torch.testing.assert_close(corrupt(COLOR[:1], "jpeg_compression", 4)[0], expected)
    small = picture.resize((int(24 * 0.75), int(28 * 0.75)), Image.Resampling.BOX)
    expected = torch.from_numpy(np.array(small.resize((24, 28), Image.Resampling.BOX))).permute(2, 0, 1)
    torch.testing.assert_close(corrupt(COLOR[:1], "pixelate", 4)[0], expected)


@pytest.mark.parametrize(("name", "severity", "images", "message"), [
    ("fog", 6, COLOR, "severity: got 6, expected 1 to 5"),
    ("fog", 0, COLOR, "severity: got 0, expected at least 1"),
    ("frogs", 1, COLOR, "did you mean"),
    ("fog", 1, COLOR[:, :2], "with 1 or 3 channels"),
    ("fog", 1, COLOR.double(), "expected \\[0, 1\\]"),
])  # fmt: skip
def test_what_is_not_defined_is_refused(name: str, severity: int, images: Tensor, message: str) -> None:
    with pytest.raises(UserError, match=message):
        corrupt(images, name, severity)


def test_no_images_give_none() -> None:
    assert corrupt(COLOR[:0], "fog", 1).shape == (0, *COLOR.shape[1:])
