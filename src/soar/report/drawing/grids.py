"""Numbers on a square grid around an image, and what is read from them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from soar.report.drawing.scales import is_shown


@dataclass(frozen=True)
class Grid:
    """Numbers at places of a plane; those without a place on a scale are NaN.

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
        """Interpolate at the middles of pixels that cover the grid.

        >>> grid((0, 1), ((0, 4), (0, 4))).enlarged(2)
        array([[1., 3.],
               [1., 3.]])
        """
        middles = self.along[0] + (np.arange(pixels) + 0.5) / pixels * (self.along[-1] - self.along[0])
        wide = [np.interp(middles, self.along, row) for row in self.values]
        return np.array([np.interp(middles, self.along, column) for column in np.transpose(wide)]).T

    def first_below(self, level: float = 0.0) -> float | None:
        """Return where the numbers fall to a level on the way from the middle along the first direction.

        >>> grid((0, 1, 2), ((3, 1, -1),) * 3).first_below()
        1.5
        """
        ahead = [0.0, *(x for x in self.along if x > 0)]
        heights = [self.at(x, 0.0) - level for x in ahead]
        if heights[0] <= 0:
            return 0.0
        for k in range(1, len(ahead)):
            before, here = heights[k - 1], heights[k]
            if here <= 0 < before:
                return ahead[k - 1] + before / (before - here) * (ahead[k] - ahead[k - 1])
        return None


def grid(along: Sequence[float], rows: Sequence[Sequence[float]]) -> Grid:
    """Make a grid of plain numbers."""
    known = [[float(one) if is_shown(one) else math.nan for one in row] for row in rows]
    return Grid(along, np.array(known, dtype=np.float64).reshape(len(rows), -1 if rows else 0))
