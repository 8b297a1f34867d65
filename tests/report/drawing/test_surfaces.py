from __future__ import annotations

import base64
import io
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from soar.report.drawing.surfaces import DIVERGING, SEQUENTIAL, Surface, Values, enlarged, shaded, surface
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


def opened(uri: str) -> Image.Image:
    head, _, body = uri.partition(",")
    assert head == "data:image/png;base64"
    return Image.open(io.BytesIO(base64.b64decode(body))).convert("RGB")


def map_of(drawing: str) -> Image.Image:
    return opened(next(parsed(drawing).iter(SVG + "image")).get("href", ""))


@pytest.mark.parametrize("values", BOTH)
def test_a_picture_is_small_and_names_its_axes(values: Values) -> None:
    drawing = surface(masked(4), values=values, title="pgd-10")
    seen = texts(parsed(drawing))
    assert len(drawing) < 12_000
    assert {"pgd-10", "along the attack (eps)", "along a random direction (eps)", "0", "1"} <= set(seen)
    assert tooltips(parsed(drawing)) == ["the image", "the attack's end"]


def test_the_box_the_image_and_the_attack_lie_where_they_belong() -> None:
    drawing = surface(masked(4), values="loss", title="t")
    # The map spans x from 46 to 272 and y from 48 to 274, for positions from -1.5 to 1.5.
    at = {x: f"{46 + 226 * (x + 1.5) / 3:.1f}".removesuffix(".0") for x in (-1, 0, 1)}
    assert f'd="M{at[0]} 161m' in drawing and f'd="M{at[1]} 161m' in drawing
    assert f'd="M{at[-1]} 236.3L{at[1]} 236.3L{at[1]} 85.7L{at[-1]} 85.7z"' in drawing


@pytest.mark.parametrize("values", BOTH)
def test_the_boundary_is_a_dark_line_with_a_light_outline(values: Values) -> None:
    image = map_of(surface(masked(4), values=values, title="t"))
    wide, high = image.size
    for y in range(high):
        row = [image.getpixel((x, y)) for x in range(wide)]
        dark, light = ([x for x in range(wide) if row[x] == (level,) * 3] for level in (17, 255))
        # The prediction changes at 0.5, two thirds of the way.
        assert dark == [132, 133] and light == [131, 134]


def test_colors_of_the_margin_turn_at_the_boundary() -> None:
    image = map_of(surface(masked(4), values="margin", title="t"))
    wide, high = image.size
    for x in [*range(131), *range(135, wide)]:
        red, _, blue = image.getpixel((x, high // 2))  # type: ignore[misc]
        assert (blue > red) == (x < 133)


def test_bilinear_functions_are_met_exactly() -> None:
    found = enlarged((-2, 0, 2), np.array([[x + 10 * y for x in (-2, 0, 2)] for y in (-2, 0, 2)]))
    places = (np.arange(200) + 0.5) / 50 - 2
    assert found == pytest.approx(places[None, :] + 10 * places[:, None])


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
    drawn = replace(masked(1), loss=flat, margin=((1.0,) * 25,) * 25)
    assert len(map_of(surface(drawn, values="loss", title="t")).getcolors() or []) == 1


def test_a_loss_beyond_the_color_bar_is_marked() -> None:
    seen = texts(parsed(surface(masked(100), values="loss", title="t")))
    assert "≥ 5" in seen and "0" in seen
    assert not [one for one in texts(parsed(surface(masked(3), values="margin", title="t"))) if "≥" in one]


def test_the_picture_is_said_in_words() -> None:
    words = "Margin 2 at the image, \N{MINUS SIGN}2 at the attack's end."
    assert (parsed(surface(masked(4), values="margin", title="t"))[1].text or "").endswith(words)


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


def lightness(color: str) -> float:
    """Return L* of CIELAB, from 0 to 100."""
    parts = [int(color[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    y = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return float(116 * y ** (1 / 3) - 16)


@pytest.mark.parametrize("colors", [SEQUENTIAL, DIVERGING[5:], DIVERGING[5::-1]])
def test_lightness_falls_in_even_steps(colors: tuple[str, ...]) -> None:
    steps = -np.diff([lightness(one) for one in colors])
    assert steps.min() > 0.6 * steps.mean() and steps.max() < 1.4 * steps.mean()


def test_both_sides_of_0_are_equally_strong() -> None:
    below, above = DIVERGING[:5][::-1], DIVERGING[6:]
    assert all(abs(lightness(a) - lightness(b)) < 6 for a, b in zip(below, above, strict=True))
    assert len(DIVERGING) % 2 == 1


def test_the_picture_has_the_colors_of_its_numbers() -> None:
    """20 bands from 0 to 4: each begins at its lower end, numbers beyond take the last, NaN is gray."""
    numbers = [-9.0, 0.0, 0.19, 0.2, 3.79, 3.8, 4.0, 9.0, math.nan]
    image = opened(shaded(np.array([numbers]), ("#000000", "#ffffff"), (0, 1, 2, 3, 4)))
    step = 255 / 19
    expected = [0, 0, 0, step, 18 * step, 255, 255, 255, 128]
    assert [image.getpixel((x, 0)) for x in range(9)] == [(round(one),) * 3 for one in expected]


def test_bands_have_an_edge_at_every_tick() -> None:
    near = np.array([[one + side for one in (1, 2, 3, 4) for side in (-1e-6, 1e-6)]])
    image = opened(shaded(near, SEQUENTIAL, (0, 1, 2, 3, 4, 5)))
    colors = [image.getpixel((x, 0)) for x in range(8)]
    assert all(below != above for below, above in zip(colors[::2], colors[1::2], strict=True))
