"""Where a function on a grid crosses a level, by marching squares."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence

Place = tuple[float, float]
Segment = tuple[Place, Place]

# The four sides of a cell, between corners that are numbered around it.
_BOTTOM, _RIGHT, _TOP, _LEFT = range(4)


def contour(along: Sequence[float], values: Sequence[Sequence[float]], level: float = 0.0) -> list[Segment]:
    """Find where a function crosses a level, as straight segments, one or two a cell.

    On each side of a cell whose ends lie on different sides of the level, the place is found by linear
    interpolation. Where all four sides are crossed, the mean of the corners tells which ends belong together.
    Cells with a corner that is not finite have none.

    Args:
        along: positions of rows and of columns, in order
        values: values[row][column], at y = along[row] and x = along[column]
        level: the level

    Returns:
        Pairs of places (x, y).

    >>> contour((0, 1), [[-1, 1], [-1, 3]])
    [((0.5, 0.0), (0.25, 1.0))]
    """
    found: list[Segment] = []
    for row in range(len(along) - 1):
        for column in range(len(along) - 1):
            around = ((row, column), (row, column + 1), (row + 1, column + 1), (row + 1, column))
            heights = [values[r][c] - level for r, c in around]
            if all(map(math.isfinite, heights)):
                corners = [(float(along[c]), float(along[r])) for r, c in around]
                # Two sides that meet in a corner at the level itself cross it in the same place.
                found += [(a, b) for a, b in _cell(corners, heights) if a != b]
    return found


def chains(segments: Sequence[Segment]) -> list[list[Place]]:
    """Join segments that meet into long lines, as few as a pen would draw.

    >>> chains([((0, 0), (1, 0)), ((2, 0), (3, 0)), ((2, 0), (1, 0))])
    [[(0, 0), (1, 0), (2, 0), (3, 0)]]
    """
    meeting: dict[Place, list[int]] = defaultdict(list)
    for k, segment in enumerate(segments):
        for end in segment:
            meeting[end].append(k)
    left = set(range(len(segments)))
    found = []
    # A line that is not closed begins where an odd number of segments meet.
    for start in sorted(meeting, key=lambda place: len(meeting[place]) % 2 == 0):
        chain = [start]
        while ahead := [k for k in meeting[chain[-1]] if k in left]:
            left.remove(ahead[0])
            one, other = segments[ahead[0]]
            chain.append(other if one == chain[-1] else one)
        if len(chain) > 1:
            found.append(chain)
    return found


def _cell(corners: list[Place], heights: list[float]) -> list[Segment]:
    above = [height > 0 for height in heights]
    crossed = [side for side in range(4) if above[side] != above[(side + 1) % 4]]
    places = {side: _crossing(corners, heights, side) for side in crossed}
    if len(crossed) < 4:
        return [(places[crossed[0]], places[crossed[1]])] if crossed else []
    # Lines cut off the corners that differ from the middle.
    if above[0] == (sum(heights) > 0):
        return [(places[_BOTTOM], places[_RIGHT]), (places[_TOP], places[_LEFT])]
    return [(places[_LEFT], places[_BOTTOM]), (places[_RIGHT], places[_TOP])]


def _crossing(corners: list[Place], heights: list[float], side: int) -> Place:
    # In this order neighboring cells compute the same place, to the last digit.
    start, end = sorted((side, (side + 1) % 4), key=corners.__getitem__)
    (x, y), (to_x, to_y) = corners[start], corners[end]
    share = heights[start] / (heights[start] - heights[end])
    return x + share * (to_x - x), y + share * (to_y - y)
