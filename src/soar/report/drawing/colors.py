"""Maps from numbers to colors, and grids of numbers as small PNG pictures."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image

# Both maps were laid out in OKLCh with even steps of lightness. The first goes from wrong (brown) over the
# boundary to right (blue), which people who cannot tell red from green tell apart; the second gets darker.
DIVERGING = (
    "#571e0b", "#893a0d", "#b36229", "#cf925f", "#e3c4a5", "#f5f5f4",
    "#a9d1ea", "#63aada", "#2b80bf", "#0e5794", "#0c335f",
)  # fmt: skip
SEQUENTIAL = (
    "#f9f6df", "#edd4a2", "#e7ad69", "#e47e47", "#d0534e", "#a83a5c", "#7c295e", "#511c51", "#2b103d",
)  # fmt: skip
_UNKNOWN = (128, 128, 128)


@dataclass(frozen=True)
class Shading:
    """Equal bands of numbers between two limits, a color each; numbers beyond take the last one.

    Args:
        colors: a map, as hexadecimal colors at equal distances
        low: where the first band begins
        high: where the last one ends
        bands: how many there are
    """

    colors: Sequence[str]
    low: float
    high: float
    bands: int

    def palette(self) -> list[tuple[int, int, int]]:
        """Return the color of each band.

        >>> Shading(("#000000", "#ffffff"), 0, 1, 3).palette()
        [(0, 0, 0), (128, 128, 128), (255, 255, 255)]
        """
        known = np.array([[int(one[k : k + 2], 16) for k in (1, 3, 5)] for one in self.colors])
        at = np.linspace(0, len(known) - 1, self.bands)
        mixed = [np.interp(at, np.arange(len(known)), known[:, k]).round().astype(int) for k in range(3)]
        return [(int(r), int(g), int(b)) for r, g, b in zip(*mixed, strict=True)]

    def band(self, numbers: NDArray[np.float64]) -> NDArray[np.uint8]:
        """Return in which band each number lies; one past the last band for those that are not finite."""
        share = (numbers - self.low) / (self.high - self.low)
        known = np.nan_to_num(np.floor(share * self.bands), nan=0.0).clip(0, self.bands - 1)
        found: NDArray[np.uint8] = np.where(np.isfinite(numbers), known, self.bands).astype(np.uint8)
        return found


def shaded(numbers: NDArray[np.float64], shading: Shading) -> str:
    """Paint numbers as a PNG picture, the first row on top, and give it as a data URI."""
    painted = Image.fromarray(shading.band(numbers))
    painted.putpalette([part for color in (*shading.palette(), _UNKNOWN) for part in color])
    stored = io.BytesIO()
    painted.save(stored, "PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(stored.getvalue()).decode()
