"""Small PNG pictures of images and of their changes."""

from __future__ import annotations

import io

import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor

# Five runs with six examples of nine frames and two pictures each have to stay below 5 MB.
LARGEST = 48


def png(image: Tensor) -> bytes:
    """Draw an image: gray for one channel, color for three, the mean of any other number.

    A picture of up to 48 pixels a side shows every pixel as it is; a larger image is averaged down.

    Args:
        image: (channels, height, width), in [0, 1]

    >>> png(torch.zeros(1, 2, 2))[1:4]
    b'PNG'
    """
    pixels = image.detach().cpu().double()
    if pixels.shape[0] not in (1, 3):
        pixels = pixels.mean(dim=0, keepdim=True)
    longest = max(pixels.shape[1:])
    if longest > LARGEST:
        height, width = (max(1, round(side * LARGEST / longest)) for side in pixels.shape[1:])
        pixels = F.adaptive_avg_pool2d(pixels, (height, width))
    levels = (255 * pixels).round().clamp(0, 255).to(torch.uint8)
    shown = levels[0] if len(levels) == 1 else levels.permute(1, 2, 0)
    file = io.BytesIO()
    Image.fromarray(shown.contiguous().numpy()).save(file, "PNG", optimize=True)
    return file.getvalue()


def change(delta: Tensor, factor: float) -> bytes:
    """Draw a perturbation around gray, which stands for no change.

    Args:
        delta: (channels, height, width)
        factor: what it is multiplied by
    """
    return png(128 / 255 + factor * delta.detach().cpu().double())
