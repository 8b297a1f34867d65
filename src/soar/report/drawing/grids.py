"""Numbers on a square grid: interpolation, contour lines, and shading as a small PNG picture."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from soar.report.drawing import png
from soar.report.drawing.scales import is_shown

Place = tuple[float, float]
Segment = tuple[Place, Place]

# Both maps have even steps of lightness in OKLCh. The first goes from misclassified (brown) over the boundary
# to correct (blue), which readers with red-green color blindness can distinguish; the second gets darker.
DIVERGING = (
    "#571e0b", "#893a0d", "#b36229", "#cf925f", "#e3c4a5", "#f5f5f4",
    "#a9d1ea", "#63aada", "#2b80bf", "#0e5794", "#0c335f",
)  # fmt: skip
SEQUENTIAL = (
    "#f9f6df", "#edd4a2", "#e7ad69", "#e47e47", "#d0534e", "#a83a5c", "#7c295e", "#511c51", "#2b103d",
)  # fmt: skip
_UNKNOWN = (128, 128, 128)


@dataclass(frozen=True)
class Grid:
    """Numbers at points of a plane; those that cannot be drawn are NaN.

    Args:
        along: positions of rows and columns, in order
        values: values[row][column], at y = along[row] and x = along[column]
    """

    along: Sequence[float]
    values: NDArray[np.float64]

    @property
    def shown(self) -> NDArray[np.float64]:
        """The numbers that are finite."""
        found: NDArray[np.float64] = self.values[np.isfinite(self.values)]
        return found

    def at(self, x: float, y: float) -> float:
        """Interpolate between the four nearest points; NaN outside the grid.

        >>> grid((0, 1), ((0, 4), (2, 6))).at(0.5, 0.5)
        3.0
        """
        rows = [np.interp(x, self.along, row, left=np.nan, right=np.nan) for row in self.values]
        return float(np.interp(y, self.along, rows, left=np.nan, right=np.nan))

    def enlarged(self, pixels: int) -> NDArray[np.float64]:
        """Interpolate at the centers of pixels that cover the grid.

        >>> grid((0, 1), ((0, 4), (0, 4))).enlarged(2)
        array([[1., 3.],
               [1., 3.]])
        """
        centers = self.along[0] + (np.arange(pixels) + 0.5) / pixels * (self.along[-1] - self.along[0])
        wide = [np.interp(centers, self.along, row) for row in self.values]
        return np.array([np.interp(centers, self.along, column) for column in np.transpose(wide)]).T

    def first_below_zero(self) -> float | None:
        """Return where the numbers first fall to 0 along x, starting from the origin.

        >>> grid((0, 1, 2), ((3, 1, -1),) * 3).first_below_zero()
        1.5
        """
        ahead = [0.0, *(x for x in self.along if x > 0)]
        heights = [self.at(x, 0.0) for x in ahead]
        if heights[0] <= 0:
            return 0.0
        for k in range(1, len(ahead)):
            before, here = heights[k - 1], heights[k]
            if here <= 0 < before:
                return ahead[k - 1] + before / (before - here) * (ahead[k] - ahead[k - 1])
        return None

    def zero_contour(self) -> list[Segment]:
        """Return where the numbers cross 0, as segments between points (x, y), by marching squares.

        On each side of a cell whose ends have different signs, the point is found by linear interpolation.
        Where all four sides are crossed, the mean of the corners decides which points are connected. Cells
        with a corner that is not finite have none.

        >>> grid((0, 1), ((-1, 1), (-1, 3))).zero_contour()
        [((0.5, 0.0), (0.25, 1.0))]
        """
        found: list[Segment] = []
        for row in range(len(self.along) - 1):
            for column in range(len(self.along) - 1):
                around = ((row, column), (row, column + 1), (row + 1, column + 1), (row + 1, column))
                heights = [float(self.values[r, c]) for r, c in around]
                if all(map(math.isfinite, heights)):
                    corners = [(float(self.along[c]), float(self.along[r])) for r, c in around]
                    # Two sides that meet in a corner of exactly 0 cross it at the same point.
                    found += [(a, b) for a, b in _crossings(corners, heights) if a != b]
        return found


def grid(along: Sequence[float], rows: Sequence[Sequence[float]]) -> Grid:
    """Return a grid of plain numbers."""
    known = [[float(one) if is_shown(one) else math.nan for one in row] for row in rows]
    return Grid(along, np.array(known, dtype=np.float64).reshape(len(rows), -1 if rows else 0))


@dataclass(frozen=True)
class Shading:
    """A color map cut into equal bands between two limits; numbers beyond take the last color.

    Args:
        colors: hexadecimal colors at equal distances
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
        """Return the band of each number; one past the last band for those that are not finite."""
        share = (numbers - self.low) / (self.high - self.low)
        known = np.nan_to_num(np.floor(share * self.bands), nan=0.0).clip(0, self.bands - 1)
        found: NDArray[np.uint8] = np.where(np.isfinite(numbers), known, self.bands).astype(np.uint8)
        return found

    def picture(self, numbers: NDArray[np.float64]) -> str:
        """Draw numbers as a PNG picture, the first row on top, and return its data URI."""
        painted = Image.fromarray(self.band(numbers))
        painted.putpalette([part for color in (*self.palette(), _UNKNOWN) for part in color])
        return png.data_uri(png.stored(painted))


def _crossings(corners: list[Place], heights: list[float]) -> list[Segment]:
    """Connect the points where the sides of a cell cross 0; corners are given around the cell."""
    above = [height > 0 for height in heights]
    places = [_crossing(corners, heights, k) for k in range(4) if above[k] != above[(k + 1) % 4]]
    if len(places) < 4:
        return [(places[0], places[1])] if places else []
    bottom, right, top, left = places
    # Lines cut off the corners whose sign is not that of the mean.
    if above[0] == (sum(heights) > 0):
        return [(bottom, right), (top, left)]
    return [(left, bottom), (right, top)]


def _crossing(corners: list[Place], heights: list[float], side: int) -> Place:
    # In this order neighboring cells compute the same place, to the last digit.
    start, end = sorted((side, (side + 1) % 4), key=corners.__getitem__)
    (x, y), (to_x, to_y) = corners[start], corners[end]
    share = heights[start] / (heights[start] - heights[end])
    return x + share * (to_x - x), y + share * (to_y - y)
