from __future__ import annotations

import math
from fractions import Fraction

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from soar import randomness
from soar.attacks.square_l2 import odd_sides
from soar.attacks.square_windows import Windows, level, place, square_sides


def published_share(iteration: int) -> float:
    """The share of pixels as AutoAttack prints it, for p0 = 0.8."""
    for last, share in [
        (10, 0.8),
        (50, 0.4),
        (200, 0.2),
        (500, 0.1),
        (1000, 0.05),
        (2000, 0.025),
        (4000, 0.0125),
        (6000, 0.00625),
        (8000, 0.003125),
    ]:
        if iteration <= last:
            return share
    return 0.0015625


AROUND = [
    0,
    1,
    9,
    10,
    11,
    50,
    51,
    200,
    201,
    500,
    501,
    1000,
    1001,
    2000,
    2001,
    4000,
    4001,
    4999,
    6000,
    6001,
    8000,
    8001,
    10**6,
]


@pytest.mark.parametrize("height, width", [(32, 32), (28, 28), (224, 224), (48, 20), (3, 4), (1, 9), (1, 1)])
def test_sides_follow_the_published_schedule(height: int, width: int) -> None:
    levels = level(torch.tensor(AROUND)).tolist()
    for iteration, at in zip(AROUND, levels, strict=True):
        side = max(round(math.sqrt(published_share(iteration) * height * width)), 1)
        assert square_sides(0.8, height, width)[at] == min(side, height, width)
        side = max(side, 3)
        side += side % 2 == 0
        assert odd_sides(0.8, height, width)[at] == min(side, height, width)


def test_known_sides_of_cifar() -> None:
    assert square_sides(0.8, 32, 32) == (29, 20, 14, 10, 7, 5, 4, 3, 2, 1)


def test_a_mask_is_the_window() -> None:
    windows = Windows(torch.tensor([0, 2]), torch.tensor([3, 1]), torch.tensor([1, 2]))
    mask = windows.mask(4, 5)
    assert mask.shape == (2, 1, 4, 5)
    for i, (top, left, side) in enumerate([(0, 3, 1), (2, 1, 2)]):
        expected = torch.zeros(4, 5, dtype=torch.bool)
        expected[top : top + side, left : left + side] = True
        assert torch.equal(mask[i, 0], expected)
    assert windows.rows(4).tolist() == [[0, -1, -1, -1], [-1, -1, 0, 1]]
    assert windows.columns(5).tolist() == [[-1, -1, -1, 0, -1], [-1, 0, 1, -1, -1]]


@given(st.integers(1, 40), st.integers(1, 40), st.data())
def test_windows_lie_in_the_image(height: int, width: int, data: st.DataObject) -> None:
    side = data.draw(st.integers(1, min(height, width)))
    edge = 1 - 2.0**-24
    draws = torch.tensor([[0.0, edge], [edge, 0.0]], dtype=torch.float64)
    windows = place(draws, torch.tensor([side, side]), height, width)
    assert windows.top.tolist() == [0, height - side] and windows.left.tolist() == [width - side, 0]
    assert (windows.mask(height, width).flatten(1).sum(dim=1) == side**2).all()


def test_all_places_are_equally_likely() -> None:
    draws = randomness.uniform(randomness.key(0, torch.arange(6000), "places"), (2,), torch.float64)
    windows = place(draws, torch.full((6000,), 3), 5, 6)
    counts = torch.bincount(windows.top * 4 + windows.left, minlength=12)
    # 500 of 6000 each; five standard deviations are 107.
    assert len(counts) == 12 and (counts - 500).abs().max() < 107


def test_the_highest_draw_is_still_inside_of_a_large_image() -> None:
    """In float32 the product of the draw and the number of places would be rounded up to one place more."""
    highest, places = torch.tensor([[1 - 2.0**-24, 0.0]]), 2**14 + 1
    top = place(highest, torch.tensor([1]), places, 4).top
    assert highest.dtype == torch.float32 and top.tolist() == [places - 1]


@given(st.integers(0, 2**24 - 1), st.integers(1, 50), st.integers(50, 3000))
def test_places_are_those_of_float64(bits: int, side: int, height: int) -> None:
    draws = torch.tensor([[bits / 2**24, bits / 2**24]])
    exact = math.floor(Fraction(bits, 2**24) * (height - side + 1))
    assert place(draws, torch.tensor([side]), height, height).left.tolist() == [exact]
