from __future__ import annotations

import base64
import io
import math

import numpy as np
import pytest
from PIL import Image

from soar.report.drawing.colors import DIVERGING, SEQUENTIAL, Shading, shaded

GRAY = Shading(("#000000", "#ffffff"), 0.0, 4.0, 4)


def opened(uri: str) -> Image.Image:
    head, _, body = uri.partition(",")
    assert head == "data:image/png;base64"
    return Image.open(io.BytesIO(base64.b64decode(body)))


def lightness(color: str) -> float:
    """Give L* of CIELAB, from 0 to 100."""
    parts = [int(color[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    y = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return float(116 * y ** (1 / 3) - 16)


def test_bands_begin_at_their_lower_end() -> None:
    numbers = np.array([-9.0, 0.0, 0.99, 1.0, 3.99, 4.0, 9.0, math.nan])
    assert GRAY.band(numbers).tolist() == [0, 0, 0, 1, 3, 3, 3, 4]


def test_the_picture_has_the_colors_of_its_numbers() -> None:
    image = opened(shaded(np.array([[0.5, 1.5], [3.5, math.nan]]), GRAY)).convert("RGB")
    gray = [image.getpixel((x, y)) for y in (0, 1) for x in (0, 1)]
    assert gray == [(0, 0, 0), (85, 85, 85), (255, 255, 255), (128, 128, 128)]


@pytest.mark.parametrize("colors", [SEQUENTIAL, DIVERGING[5:], DIVERGING[5::-1]])
def test_lightness_falls_in_even_steps(colors: tuple[str, ...]) -> None:
    steps = -np.diff([lightness(one) for one in colors])
    assert steps.min() > 0.6 * steps.mean() and steps.max() < 1.4 * steps.mean()


def test_both_sides_of_0_are_equally_strong() -> None:
    below, above = DIVERGING[:5][::-1], DIVERGING[6:]
    assert all(abs(lightness(a) - lightness(b)) < 6 for a, b in zip(below, above, strict=True))
    assert len(DIVERGING) % 2 == 1
