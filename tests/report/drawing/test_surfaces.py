from __future__ import annotations

import base64
import io
import math
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from soar.report.drawing.surfaces import Surface, Values, surface
from soar.report.drawing.svg import coordinate
from tests.report.drawings import SVG, parsed, texts, tooltips

ALONG = tuple(float(one) for one in np.linspace(-1.5, 1.5, 25))
BOTH: tuple[Values, ...] = ("loss", "margin")


def both(drawn: Surface) -> list[str]:
    return [surface(drawn, values=values, title="t") for values in BOTH]


def masked(scale: float) -> Surface:
    """The prediction changes at x = 0.5; the larger the scale, the flatter the loss up to there."""
    margin = tuple(tuple(scale * (0.5 - x) for x in ALONG) for _ in ALONG)
    loss = tuple(tuple(float(np.logaddexp(0, -one)) for one in row) for row in margin)
    return Surface(index=7, label=3, along=ALONG, margin=margin, loss=loss)


def map_of(drawing: str) -> Image.Image:
    href = next(parsed(drawing).iter(SVG + "image")).get("href", "")
    return Image.open(io.BytesIO(base64.b64decode(href.partition(",")[2]))).convert("RGB")


@pytest.mark.parametrize("values", BOTH)
def test_a_picture_is_small_and_names_its_axes(values: Values) -> None:
    drawing = surface(masked(4), values=values, title="pgd-10")
    seen = texts(parsed(drawing))
    assert len(drawing) < 12_000
    assert {"pgd-10", "along the attack (eps)", "along a random direction (eps)", "0", "1"} <= set(seen)
    assert tooltips(parsed(drawing)) == ["the image", "the attack's end"]


def test_the_boundary_the_image_and_the_attack_lie_where_they_belong() -> None:
    drawing = surface(masked(4), values="loss", title="t")
    # The map spans x from 46 to 272 and y from 48 to 274, for positions from -1.5 to 1.5.
    at = {x: f"{46 + 226 * (x + 1.5) / 3:.1f}".removesuffix(".0") for x in (-1, 0, 0.5, 1)}
    line = re.search(rf'd="(M{at[0.5]} [^"]*)" stroke="#111"', drawing)
    assert line and [piece.split("L") for piece in line[1].split("M")[1:]] == [
        [f"{at[0.5]} {coordinate(274 - 226 * (k + end) / 24)}" for end in (0, 1)] for k in range(24)
    ]
    assert f'd="M{at[0]} 161m' in drawing and f'd="M{at[1]} 161m' in drawing
    assert f'd="M{at[-1]} 236.3L{at[1]} 236.3L{at[1]} 85.7L{at[-1]} 85.7z"' in drawing


def test_colors_of_the_margin_turn_at_the_boundary() -> None:
    image = map_of(surface(masked(4), values="margin", title="t"))
    wide, high = image.size
    for x in range(wide):
        red, _, blue = image.getpixel((x, high // 2))  # type: ignore[misc]
        is_right = (x + 0.5) / wide * 3 - 1.5 < 0.5
        assert (blue > red) == is_right


def test_rows_go_up() -> None:
    values = tuple(tuple(5.0 if y > 0 else 0.0 for _ in ALONG) for y in ALONG)
    image = map_of(surface(replace(masked(1), loss=values), values="loss", title="t"))
    assert sum(image.getpixel((9, 9))) < sum(image.getpixel((9, image.height - 9)))  # type: ignore[arg-type]


def test_a_masked_loss_is_a_plain_up_to_the_boundary_and_a_sound_one_a_slope() -> None:
    colors = []
    for scale in (100, 0.5):
        image = map_of(surface(masked(scale), values="loss", title="t"))
        row = [image.getpixel((x, 9)) for x in range(image.width)]
        colors.append(len(set(row[: image.width * 6 // 10])))
    assert colors[0] == 1 and colors[1] >= 6


def test_a_loss_that_is_rounding_looks_flat() -> None:
    flat = tuple(tuple(1e-7 * abs(x) for x in ALONG) for _ in ALONG)
    assert (
        len(map_of(surface(replace(masked(1), loss=flat), values="loss", title="t")).getcolors() or []) == 1
    )


def test_a_loss_beyond_the_color_bar_is_marked() -> None:
    seen = texts(parsed(surface(masked(100), values="loss", title="t")))
    assert "≥ 5" in seen and "0" in seen
    assert not [one for one in texts(parsed(surface(masked(3), values="margin", title="t"))) if "≥" in one]


@pytest.mark.parametrize(
    ("drawn", "words"),
    [
        (
            masked(4),
            "Margin 2 at the image, \N{MINUS SIGN}2 at the attack's end. Misclassified from 0.5 eps on.",
        ),
        (replace(masked(4), margin=((1.0,) * 25,) * 25), "does not change."),
        (replace(masked(4), margin=((-1.0,) * 25,) * 25), "The image is misclassified."),
    ],
)
def test_the_picture_is_said_in_words(drawn: Surface, words: str) -> None:
    assert (parsed(surface(drawn, values="margin", title="t"))[1].text or "").endswith(words)


@pytest.mark.parametrize("values", BOTH)
@pytest.mark.parametrize("number", [math.nan, math.inf, 1e200])
def test_numbers_that_are_not_known(values: Values, number: float) -> None:
    drawn = masked(4)
    rows = [list(row) for row in drawn.margin]
    rows[12][12] = number
    holed = tuple(map(tuple, rows))
    drawing = surface(replace(drawn, margin=holed, loss=holed), values=values, title="t")
    assert "unknown at the image" in (parsed(drawing)[1].text or "")
    nothing = ((number,) * 25,) * 25
    assert "no data" in surface(replace(drawn, margin=nothing, loss=nothing), values=values, title="t")


def test_no_points_at_all() -> None:
    empty = Surface(index=0, label=0, along=(), margin=(), loss=())
    assert all("no data" in texts(parsed(one)) for one in both(empty))


@pytest.mark.parametrize("title", ["<script>alert(1)</script>", "\"'>" * 300, "🦊" * 99, "\x00"])
def test_hostile_titles(title: str) -> None:
    drawing = surface(masked(1), values="loss", title=title)
    assert "<script" not in drawing
    parsed(drawing)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.lists(st.floats(), min_size=5, max_size=5), min_size=5, max_size=5))
def test_any_numbers_make_a_small_picture(rows: list[list[float]]) -> None:
    numbers = tuple(map(tuple, rows))
    drawn = Surface(index=0, label=0, along=(-2.0, -1.0, 0.0, 1.0, 2.0), margin=numbers, loss=numbers)
    for drawing in both(drawn):
        parsed(drawing)
        assert len(drawing) < 25_000


def test_noise_is_still_a_small_picture() -> None:
    noise = np.random.default_rng(0).normal(size=(25, 25))
    rows = tuple(map(tuple, noise.tolist()))
    ragged = replace(masked(1), margin=rows, loss=rows)
    assert all(len(one) < 45_000 for one in both(ragged))
