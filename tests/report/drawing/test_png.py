from __future__ import annotations

import io

import numpy as np
import pytest
import torch
from PIL import Image

from soar.report.drawing.png import LARGEST, encode


@pytest.mark.parametrize("channels, mode", [(1, "L"), (3, "RGB"), (2, "L"), (4, "L")])
def test_pictures_hold_every_pixel(channels: int, mode: str) -> None:
    levels = torch.arange(channels * 6 * 5).reshape(channels, 6, 5)
    picture = Image.open(io.BytesIO(encode(levels / 255)))
    assert picture.mode == mode and picture.size == (5, 6)
    shown = np.array(picture).astype(int)
    if channels == 3:
        assert (shown == levels.permute(1, 2, 0).numpy()).all()
    else:  # the mean of several channels may lie between two gray levels
        assert np.abs(shown - levels.double().mean(dim=0).numpy()).max() <= (0.5 if channels > 1 else 0)


def test_values_beyond_black_and_white_are_clipped() -> None:
    delta = torch.tensor([[[0.0, 10 / 255, -10 / 255, 1.0, -1.0]]])
    shown = np.array(Image.open(io.BytesIO(encode(128 / 255 + 4 * delta))))
    assert shown.tolist() == [[128, 168, 88, 255, 0]]


def test_large_images_are_averaged_down() -> None:
    image = torch.zeros(3, 2 * LARGEST, LARGEST)
    image[:, ::2] = 1
    picture = Image.open(io.BytesIO(encode(image)))
    assert picture.size == (LARGEST // 2, LARGEST)
    assert np.unique(np.array(picture)).tolist() == [128]
