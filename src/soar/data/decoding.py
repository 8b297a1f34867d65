"""Decode the bytes of an image file, whatever they claim, and bring it to a given size."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from soar.data.files import parsing
from soar.data.stored import Pixels
from soar.errors import UserError

if TYPE_CHECKING:
    from PIL.Image import Image

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff")
LARGEST_FILE = 1 << 29
_GRAY = ("1", "L", "LA")
_COLOR = ("P", "RGB", "RGBA", "CMYK", "YCbCr")
# By content, whatever the name: Pillow hands PostScript, which it also knows, to another program.
_FORMATS = ("PNG", "JPEG", "BMP", "GIF", "WEBP", "TIFF")
# As many as Pillow unpacks without a warning; three bytes each without compression, and as much again.
_MOST_PIXELS = 89_478_485


@dataclass(frozen=True)
class Framing:
    """The size that images are brought to; by default they keep their own, which must be the same for all.

    Args:
        resize: the length of the shorter side after scaling, with antialiasing
        crop: the side of the square that is then cut out of the middle
    """

    resize: int | None = None
    crop: int | None = None

    def __post_init__(self) -> None:
        if self.resize is not None and self.crop is None:
            raise UserError(
                f"data.crop: missing, expected a size of at most {self.resize} beside data.resize: images"
                " scaled alike still differ in their longer sides"
            )
        if self.resize is not None and self.crop is not None and self.crop > self.resize:
            raise UserError(f"data.crop: got {self.crop}, expected at most data.resize, {self.resize}")


KEPT = Framing()
"""every image keeps its size"""


@dataclass(frozen=True)
class Header:
    """What an image file says of itself."""

    width: int
    height: int
    is_gray: bool


@contextmanager
def _opened(content: bytes, where: str) -> Iterator[Image]:
    from PIL import Image

    # In memory: Pillow asks for pieces as long as the image says, and a file allocates them first.
    with (
        parsing(where, "cannot be read as an image"),
        Image.open(io.BytesIO(content), formats=_FORMATS) as picture,
    ):
        width, height = picture.size
        if width * height > _MOST_PIXELS:
            raise UserError(
                f"{where}: {width} x {height} pixels, allowed are at most {_MOST_PIXELS} per image"
            )
        if picture.mode not in (*_GRAY, *_COLOR):
            raise UserError(f"{where}: pixels of kind '{picture.mode}', expected 8 bits per channel")
        yield picture


def header(content: bytes, where: str) -> Header:
    """Read the size and the kind of an image without unpacking its pixels.

    Args:
        content: the whole file
        where: what to call it in messages

    Raises:
        UserError: if it is no image, or one that is not supported
    """
    with warnings.catch_warnings():
        # Notes about metadata, which are not used.
        warnings.simplefilter("ignore")
        with _opened(content, where) as picture:
            return Header(*picture.size, picture.mode in _GRAY)


def decode(content: bytes, where: str, channels: int, framing: Framing) -> Pixels:
    """Return the pixels of an image, shape (channels, height, width).

    Args:
        content: the whole file
        where: what to call it in messages
        channels: 1 for gray, 3 for RGB
        framing: the size to bring it to

    Raises:
        UserError: if it is no image, one that is not supported, or too small to be cropped
    """
    with _opened(content, where) as picture:
        framed = _framed(picture, "L" if channels == 1 else "RGB", framing, where)
        pixels = np.asarray(framed)
    return pixels[None] if pixels.ndim == 2 else np.ascontiguousarray(pixels.transpose(2, 0, 1))


def _framed(picture: Image, mode: str, framing: Framing, where: str) -> Image:
    """Scale the shorter side to `resize`, convert, and cut a square out of the middle."""
    from PIL import Image

    if framing.resize is not None:
        width, height = picture.size
        scale = framing.resize / min(width, height)
        size = max(framing.resize, round(width * scale)), max(framing.resize, round(height * scale))
        # A JPEG can be decoded at half, a quarter or an eighth of its size: never below the size wanted.
        picture.draft(mode, size)
        return _cropped(picture.convert(mode).resize(size, Image.Resampling.BILINEAR), framing.crop, where)
    return _cropped(picture.convert(mode), framing.crop, where)


def _cropped(picture: Image, side: int | None, where: str) -> Image:
    if side is None:
        return picture
    width, height = picture.size
    if side > min(width, height):
        raise UserError(
            f"{where}: {width} x {height} pixels, too few for data.crop {side}; enlarge images with"
            " data.resize"
        )
    left, top = (width - side) // 2, (height - side) // 2
    return picture.crop((left, top, left + side, top + side))
