"""Small PNG images, and how they are put into a page."""

from __future__ import annotations

import io
from base64 import b64encode

import torch
from PIL import Image
from torch import Tensor

LARGEST = 48
"""pixels per side: the gallery of five runs, with hundreds of images, stays below 5 MB"""


def encode(image: Tensor) -> bytes:
    """Encode an image: gray for one channel, color for three, the mean of any other number.

    An image of up to 48 pixels per side shows every pixel as it is; a larger image is averaged down.

    Args:
        image: (channels, height, width), in [0, 1]

    >>> encode(torch.zeros(1, 2, 2))[1:4]
    b'PNG'
    """
    pixels = image.detach().cpu().double()
    if pixels.shape[0] not in (1, 3):
        pixels = pixels.mean(dim=0, keepdim=True)
    levels = (255 * pixels).round().clamp(0, 255).to(torch.uint8)
    shown = levels[0] if len(levels) == 1 else levels.permute(1, 2, 0)
    picture = Image.fromarray(shown.contiguous().numpy())
    picture.thumbnail((LARGEST, LARGEST), Image.Resampling.BOX)
    return stored(picture)


def stored(picture: Image.Image) -> bytes:
    """Return the bytes of a PNG file."""
    file = io.BytesIO()
    picture.save(file, "PNG", optimize=True)
    return file.getvalue()


def data_uri(png: bytes) -> str:
    """Return an image as an address that holds it.

    >>> data_uri(b"PNG")
    'data:image/png;base64,UE5H'
    """
    return f"data:image/png;base64,{b64encode(png).decode()}"
