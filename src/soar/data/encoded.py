"""Stored images that are files or parts of archives, decoded when they are read."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from soar.data.decoding import Framing, Header, decode, header
from soar.data.stored import Pixels, Rows, StoredImages
from soar.errors import UserError

_SAMPLED = 64


class Encoded(StoredImages):
    """Images in the formats that cameras and the web use; a subclass knows where their bytes are.

    Their shape is found out from their headers: gray where all are gray, else RGB. Without a crop all headers
    are read, because all images must have one size; with one, only the kind is unknown, and a sample of 64
    decides it.

    Args:
        count: how many there are
        framing: the size that they are brought to

    Raises:
        UserError: if one of these headers cannot be read, or sizes differ
    """

    def __init__(self, count: int, framing: Framing) -> None:
        self._framing = framing
        kept = framing.crop is None
        rows = range(count) if kept else range(0, count, max(1, count // _SAMPLED))
        first: Header | None = None
        is_gray = True
        for row in rows:
            found = header(self.content(row), self.where(row))
            first = first or found
            if kept and (found.width, found.height) != (first.width, first.height):
                raise UserError(
                    f"{self.where(row)}: {found.width} x {found.height} pixels, but {self.where(0)} has"
                    f" {first.width} x {first.height}; expected images of one size, or data.resize and"
                    " data.crop"
                )
            is_gray = is_gray and found.is_gray
        if first is None:
            raise UserError("data: got no images, expected at least one")
        height, width = (first.height, first.width) if framing.crop is None else (framing.crop, framing.crop)
        super().__init__((count, 1 if is_gray else 3, height, width))

    @abstractmethod
    def content(self, row: int) -> bytes:
        """Return the bytes of one image."""

    @abstractmethod
    def where(self, row: int) -> str:
        """Return what to call an image in messages."""

    def read(self, rows: Rows) -> Pixels:
        """Return some images, in the order given."""
        found = np.empty((len(rows), *self.shape[1:]), np.uint8)
        for place, row in enumerate(rows.tolist()):
            pixels = decode(self.content(row), self.where(row), self.shape[1], self._framing)
            if pixels.shape != self.shape[1:]:
                raise UserError(
                    f"{self.where(row)}: {pixels.shape[2]} x {pixels.shape[1]} pixels, expected"
                    f" {self.shape[3]} x {self.shape[2]}, as when the data were loaded"
                )
            found[place] = pixels
        return found
