from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.fft import dctn, idctn

from soar.attacks.dct import dct_matrix, dct_waves
from tests.attacks.replay import pictures


@pytest.mark.parametrize("height, width", [(1, 1), (4, 4), (3, 8), (28, 28), (32, 20)])
def test_the_matrices_are_scipys_transform(height: int, width: int) -> None:
    image = pictures(1, (1, height, width))[0, 0]
    expected = dctn(image.numpy(), norm="ortho")
    ours = dct_matrix(height) @ image @ dct_matrix(width).T
    np.testing.assert_allclose(ours.numpy(), expected, atol=1e-12)


@given(st.integers(1, 40))
def test_waves_are_orthonormal(size: int) -> None:
    matrix = dct_matrix(size)
    torch.testing.assert_close(matrix @ matrix.T, torch.eye(size, dtype=torch.float64), rtol=0, atol=1e-12)


def test_each_wave_is_one_coefficient_of_scipys_transform() -> None:
    down, across = torch.tensor([0, 2, 4, 1]), torch.tensor([0, 5, 3, 0])
    waves = dct_waves(down, across, torch.zeros(1, 1, 5, 6, dtype=torch.float64))
    for wave, u, v in zip(waves, down.tolist(), across.tolist(), strict=True):
        only = np.zeros((5, 6))
        only[u, v] = 1
        np.testing.assert_allclose(wave.numpy(), idctn(only, norm="ortho"), atol=1e-12)


def test_waves_come_in_the_type_of_the_images() -> None:
    like = torch.zeros(1, 1, 3, 3)
    assert dct_waves(torch.tensor([1]), torch.tensor([1]), like).dtype == torch.float32
