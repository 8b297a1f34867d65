"""Numbers on a square grid: interpolation, contour lines, and shading as a small PNG image."""

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
_GRAY = 128
_BANDS = 20  # of color, at most


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
        ahead = np.array([0.0, *(x for x in self.along if x > 0)])
        heights = np.array([self.at(x, 0.0) for x in ahead])
        if heights[0] <= 0:
            return 0.0
        falls = np.flatnonzero((heights[:-1] > 0) & (heights[1:] <= 0))
        if not falls.size:
            return None
        here = slice(falls[0], falls[0] + 2)
        return float(np.interp(0.0, heights[here][::-1], ahead[here][::-1]))

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


def shaded(numbers: NDArray[np.float64], colors: Sequence[str], ticks: Sequence[float]) -> str:
    """Draw numbers in bands of color as a PNG image, the first row on top, and return its data URI.

    Args:
        numbers: those beyond the ticks take the first or last color, those that are not finite are gray
        colors: a color map, as hexadecimal colors at equal distances
        ticks: equidistant numbers; bands have an edge at each, and reach from the first to the last
    """
    bands = _BANDS - _BANDS % (len(ticks) - 1)
    band = np.floor((numbers - ticks[0]) / (ticks[-1] - ticks[0]) * bands).clip(0, bands - 1)
    known = np.array([[int(color[k : k + 2], 16) for k in (1, 3, 5)] for color in colors])
    at, places = band / (bands - 1) * (len(known) - 1), np.arange(len(known))
    painted = np.stack([np.interp(at, places, known[:, k]) for k in range(3)], axis=-1).round()
    painted[~np.isfinite(numbers)] = _GRAY
    picture = Image.fromarray(painted.astype(np.uint8))
    return png.data_uri(png.stored(picture.convert("P", palette=Image.Palette.ADAPTIVE)))


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
