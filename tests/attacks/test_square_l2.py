from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from soar import randomness
from soar.attacks.square_l2 import L2Squares, two_lobes
from tests.attacks.replay import Shape, pictures

Image = np.ndarray[Any, np.dtype[np.float64]]


def unit(image: Image) -> Image:
    length = np.sqrt((image**2).sum())
    scaled: Image = image / length if length > 0 else image
    return scaled


def nested_squares(height: int, width: int) -> Image:
    """A bump painted square by square, from the middle outwards."""
    bump = np.zeros((height, width))
    middle, across = height // 2, width // 2
    for k in range(max(height, width) // 2 + 1):
        for i in range(max(middle - k, 0), min(middle + k + 1, height)):
            for j in range(max(across - k, 0), min(across + k + 1, width)):
                bump[i, j] += 1 / (k + 1) ** 2
    return unit(bump)


def painted(side: int) -> Image:
    pattern = -nested_squares(side, side)
    if side > 1:
        pattern[: side // 2] = nested_squares(side // 2, side)
        pattern[side // 2 :] = -nested_squares(side - side // 2, side)
    return unit(pattern)


@pytest.mark.parametrize("side", [1, 2, 3, 4, 5, 6, 7, 10, 15, 29])
def test_the_pattern_is_nested_squares_of_length_one(side: int) -> None:
    pattern = two_lobes(side)
    assert pattern.square().sum().item() == pytest.approx(1)
    np.testing.assert_allclose(pattern.numpy(), painted(side), atol=1e-12)
    assert (pattern[: side // 2] > 0).all() and (pattern[side // 2 :] < 0).all()


def test_tiles_of_a_known_size_cover_the_middle() -> None:
    x = torch.full((40, 3, 32, 32), 0.5, dtype=torch.float64)
    delta = L2Squares(0.8, 0.5).start(x, randomness.key(0, torch.arange(40), "tiles")) - x
    torch.testing.assert_close(delta.flatten(1).norm(dim=1), torch.full((40,), 0.5, dtype=torch.float64))
    # Five tiles of 6 by 6 leave one pixel at each border.
    assert (delta[:, :, 1:31, 1:31] != 0).all()
    assert (delta[:, :, [0, 31]] == 0).all() and (delta[..., [0, 31]] == 0).all()
    tiles = delta[:, :, 1:31, 1:31].reshape(40, 3, 5, 6, 5, 6).transpose(3, 4) / (0.5 / math.sqrt(75))
    pattern = torch.from_numpy(painted(6))
    kinds = torch.stack([pattern, -pattern, pattern.T, -pattern.T])
    matches = ((tiles[..., None, :, :] - kinds).abs() < 1e-9).all(dim=-1).all(dim=-1)
    assert (matches.sum(dim=-1) == 1).all()
    # 3000 tiles, a quarter of each kind; five standard deviations of a fair count are 119, and channels
    # of a tile share its direction, which makes directions vary more.
    assert (matches.flatten(0, 3).sum(dim=0) - 750).abs().max() < 200
    standing = matches[..., 2:].any(dim=-1)
    assert (standing == standing[:, :1]).all()


class ByHand:
    """One move of one image, window by window, with the numbers that were drawn."""

    def __init__(self, x: Image, best: Image, eps: float) -> None:
        self.x, self.eps = x, eps
        self.delta = best - x
        self.channels, self.height, self.width = x.shape

    def move(self, share: float, draws: list[float]) -> Image:
        side = max(round(math.sqrt(share * self.height * self.width)), 3)
        side += side % 2 == 0
        side = min(side, self.height, self.width)
        i, k = (int(u * (self.height - side + 1)) for u in (draws[0], draws[2]))
        j, m = (int(u * (self.width - side + 1)) for u in (draws[1], draws[3]))
        pattern = painted(side).T if draws[4] >= 0.5 else painted(side)
        missing = max(self.eps**2 - (self.delta**2).sum(), 0)
        first, second = np.zeros((2, self.height, self.width), dtype=bool)
        first[i : i + side, j : j + side] = True
        second[k : k + side, m : m + side] = True
        after = self.delta.copy()
        after[:, second] = 0
        for c in range(self.channels):
            old = self.delta[c, i : i + side, j : j + side]
            new = unit(old) + pattern * (1 if draws[5 + c] >= 0.5 else -1)
            budget = np.sqrt(missing / self.channels + (self.delta[c][first | second] ** 2).sum())
            after[c, i : i + side, j : j + side] = unit(new) * budget
        clipped: Image = np.clip(self.x + self.eps * unit(after), 0, 1)
        return clipped


@pytest.mark.parametrize("shape", [(1, 8, 8), (3, 12, 7), (3, 5, 16), (1, 3, 4), (2, 2, 2)])
def test_moves_are_their_formula_written_out(shape: Shape) -> None:
    x, eps = pictures(8, shape), 0.7
    squares = L2Squares(0.8, eps)
    best = squares.start(x, randomness.key(0, torch.arange(8), "start"))
    iterations = torch.tensor([0, 10, 11, 51, 201, 501, 1001, 4999])
    shares = [0.8, 0.8, 0.4, 0.2, 0.1, 0.05, 0.025, 0.00625]
    for round_ in range(5):
        keys = randomness.key(round_, torch.arange(8), "move")
        points = squares.propose(best, x, squares.moves(keys, iterations, x))
        draws = randomness.uniform(keys, (5 + shape[0],), torch.float64).tolist()
        for i in range(8):
            expected = ByHand(x[i].numpy(), best[i].numpy(), eps).move(shares[i], draws[i])
            np.testing.assert_allclose(points[i].numpy(), expected, atol=1e-9)
        best = points


def test_the_best_points_are_not_touched() -> None:
    x, squares = pictures(4, (3, 9, 9)), L2Squares(0.8, 0.5)
    best = squares.start(x, randomness.key(0, torch.arange(4), "start"))
    before = best.clone(), x.clone()
    moves = squares.moves(randomness.key(1, torch.arange(4), "m"), torch.arange(4), x)
    squares.propose(best, x, moves)
    assert torch.equal(best, before[0]) and torch.equal(x, before[1])


@given(
    st.tuples(st.sampled_from([1, 3]), st.integers(1, 14), st.integers(1, 14)),
    st.floats(0.01, 5),
    st.integers(0, 10_000),
)
def test_no_move_is_longer_than_eps(shape: Shape, eps: float, iteration: int) -> None:
    for low, high in ((0.0, 1.0), (0.5, 0.5)):
        x, squares = pictures(3, shape, low, high), L2Squares(0.8, eps)
        points = squares.start(x, randomness.key(0, torch.arange(3), "start"))
        for step in range(4):
            lengths = (points - x).flatten(1).norm(dim=1)
            assert (lengths <= eps * (1 + 1e-9)).all() and points.isfinite().all()
            # In a window of one pixel the opposite pattern cancels what was there and leaves nothing.
            inside = ((points > 0) & (points < 1)).flatten(1).all(dim=1) & (min(shape[1:]) > 1)
            torch.testing.assert_close(lengths[inside], torch.full_like(lengths[inside], eps))
            keys = randomness.key(step, torch.arange(3), "move")
            moves = squares.moves(keys, torch.full((3,), iteration), x)
            points = squares.propose(points, x, moves)


def test_single_precision_keeps_the_length() -> None:
    x, squares = torch.full((16, 3, 32, 32), 0.5), L2Squares(0.8, 0.5)
    best = squares.start(x, randomness.key(0, torch.arange(16), "start"))
    for step in range(50):
        keys = randomness.key(step, torch.arange(16), "move")
        moves = squares.moves(keys, torch.full((16,), 100 * step), x)
        best = squares.propose(best, x, moves)
    torch.testing.assert_close((best - x).flatten(1).norm(dim=1), torch.full((16,), 0.5), rtol=1e-5, atol=0)
