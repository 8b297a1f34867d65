"""Fewer and calmer points: a screen shows hundreds, a training records many thousands."""

from __future__ import annotations

import math
from collections.abc import Sequence


def thin(values: Sequence[float], most: int) -> list[int]:
    """Choose points of a curve so that it looks the same: the ends, and the extremes of equal stretches.

    Args:
        values: finite numbers, in order
        most: how many to keep at most, 4 or more

    Returns:
        Positions of those that are kept, in order.

    >>> thin([0, 1, 9, 1, 0, -5, 0, 1, 2, 1], 6)
    [0, 2, 5, 8, 9]
    """
    count = len(values)
    if count <= most:
        return list(range(count))
    stretches = most // 2 - 1
    kept = {0, count - 1}
    for k in range(stretches):
        inside = range(count * k // stretches, count * (k + 1) // stretches)
        kept |= {min(inside, key=values.__getitem__), max(inside, key=values.__getitem__)}
    return sorted(kept)


def running_mean(values: Sequence[float], window: int) -> list[float]:
    """Average each number with its neighbors; what is not finite counts for nothing and stays.

    Args:
        values: any numbers
        window: how many numbers are averaged; at the ends there are fewer

    >>> running_mean([1, 2, 6, 4], 3)
    [1.5, 3.0, 4.0, 5.0]
    """
    before, after = (window - 1) // 2, window // 2
    means = []
    for k, value in enumerate(values):
        near = [one for one in values[max(0, k - before) : k + after + 1] if math.isfinite(one)]
        means.append(math.fsum(near) / len(near) if math.isfinite(value) else value)
    return means
