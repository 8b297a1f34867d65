from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize

from soar import randomness
from soar.attacks.square_l1 import L1Squares
from soar.attacks.square_l2 import two_lobes
from tests.attacks.replay import Shape, pictures

Image = np.ndarray[Any, np.dtype[np.float64]]


def unit(image: Image) -> Image:
    length = np.abs(image).sum()
    scaled: Image = image / length if length > 0 else image
    return scaled


def nested_squares(height: int, width: int) -> Image:
    """A bump painted square by square, from the middle outwards."""
    bump = np.zeros((height, width))
    middle, across = height // 2, width // 2
    for k in range(max(height, width) // 2 + 1):
        rows = slice(max(middle - k, 0), middle + k + 1)
        bump[rows, max(across - k, 0) : across + k + 1] += 1 / (k + 1) ** 4
    return unit(bump)


def painted(side: int) -> Image:
    pattern = np.zeros((side, side))
    pattern[: side // 2] = nested_squares(side // 2, side) if side > 1 else 0
    pattern[side // 2 :] = -nested_squares(side - side // 2, side)
    return unit(pattern)


def projected(delta: Image, x: Image, eps: float) -> Image:
    room = np.where(delta > 0, 1 - x, x)

    def shrunk(t: float) -> Image:
        sizes: Image = np.minimum(np.maximum(np.abs(delta) - t, 0), room)
        return sizes

    if shrunk(0.0).sum() <= eps:
        t = 0.0
    else:
        t = optimize.bisect(lambda at: shrunk(at).sum() - eps, 0, np.abs(delta).max(), xtol=1e-15)
    inside: Image = np.clip(x + np.sign(delta) * shrunk(t), 0, 1)
    return inside


@pytest.mark.parametrize("side", [1, 2, 3, 5, 6, 11])
def test_the_pattern_is_nested_squares_of_l1_length_one(side: int) -> None:
    np.testing.assert_allclose(two_lobes(side, 1).numpy(), painted(side), atol=1e-12)
    assert two_lobes(side, 1).abs().sum().item() == pytest.approx(1)


def test_the_start_is_the_nearest_point_to_tiles_of_length_one() -> None:
    x, eps = torch.full((6, 2, 10, 10), 0.5, dtype=torch.float64), 3.0
    points = L1Squares(0.8, eps).start(x, randomness.key(0, torch.arange(6), "tiles"))
    delta = (points - x).numpy()
    tile = painted(2)
    for i in range(6):
        np.testing.assert_allclose(np.abs(delta[i]).sum(), eps)
        signs = np.zeros((2, 10, 10))
        for c in range(2):
            for row in range(0, 10, 2):
                for column in range(0, 10, 2):
                    part = delta[i, c, row : row + 2, column : column + 2]
                    kinds = [tile, -tile, tile.T, -tile.T]
                    fits = [k for k in kinds if (np.sign(part) * np.sign(k) >= 0).all() and part.any()]
                    signs[c, row : row + 2, column : column + 2] = fits[0] if fits else tile
        np.testing.assert_allclose(points[i].numpy(), projected(signs, x[i].numpy(), eps), atol=1e-9)


def moved_by_hand(x: Image, best: Image, eps: float, share: float, draws: list[float]) -> Image:
    channels, height, width = x.shape
    side = max(round(math.sqrt(share * height * width)), 3)
    side += side % 2 == 0
    side = min(side, height, width)
    i, k = (int(u * (height - side + 1)) for u in (draws[0], draws[2]))
    j, m = (int(u * (width - side + 1)) for u in (draws[1], draws[3]))
    pattern = painted(side).T if draws[4] >= 0.5 else painted(side)
    delta = best - x
    missing = max(eps - np.abs(delta).sum(), 0)
    first, second = np.zeros((2, height, width), dtype=bool)
    first[i : i + side, j : j + side] = True
    second[k : k + side, m : m + side] = True
    after = delta.copy()
    after[:, second] = 0
    for c in range(channels):
        old = delta[c, i : i + side, j : j + side]
        new = unit(old) + pattern * (1 if draws[5 + c] >= 0.5 else -1)
        budget = (missing / channels + np.abs(delta[c][first | second]).sum()) * channels
        after[c, i : i + side, j : j + side] = unit(new) * budget
    return projected(after, x, eps)


@pytest.mark.parametrize("shape", [(1, 8, 8), (3, 12, 7), (1, 3, 4), (2, 2, 2)])
def test_moves_are_their_formula_written_out(shape: Shape) -> None:
    x, eps = pictures(8, shape), 1.5
    squares = L1Squares(0.8, eps)
    best = squares.start(x, randomness.key(0, torch.arange(8), "start"))
    iterations = torch.tensor([0, 10, 11, 51, 201, 501, 1001, 4999])
    shares = [0.8, 0.8, 0.4, 0.2, 0.1, 0.05, 0.025, 0.00625]
    for round_ in range(4):
        keys = randomness.key(round_, torch.arange(8), "move")
        points = squares.propose(best, x, squares.moves(keys, iterations, x))
        draws = randomness.uniform(keys, (5 + shape[0],), torch.float64).tolist()
        for i in range(8):
            expected = moved_by_hand(x[i].numpy(), best[i].numpy(), eps, shares[i], draws[i])
            np.testing.assert_allclose(points[i].numpy(), expected, atol=1e-9)
        best = points


@given(
    st.tuples(st.sampled_from([1, 3]), st.integers(1, 14), st.integers(1, 14)),
    st.floats(0.01, 50),
    st.integers(0, 10_000),
)
def test_no_move_is_longer_than_eps(shape: Shape, eps: float, iteration: int) -> None:
    x, squares = pictures(3, shape), L1Squares(0.8, eps)
    points = squares.start(x, randomness.key(0, torch.arange(3), "start"))
    for step in range(3):
        assert ((points - x).flatten(1).abs().sum(dim=1) <= eps * (1 + 1e-9)).all()
        assert points.min() >= 0 and points.max() <= 1
        moves = squares.moves(randomness.key(step, torch.arange(3), "move"), torch.full((3,), iteration), x)
        points = squares.propose(points, x, moves)
