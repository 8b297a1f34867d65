"""How sure a share of examples is."""

from __future__ import annotations

import math

_Z = 1.959963984540054  # 97.5 % of the standard normal distribution lie below it


def wilson(successes: int, trials: int) -> tuple[float, float]:
    r"""Give the 95 % interval of a probability after counting successes (Wilson, 1927).

    (p + z^2/2n \pm z \sqrt{p(1-p)/n + z^2/4n^2}) / (1 + z^2/n)

    It stays inside [0, 1] and is honest also at 0 and 100 %, where the usual interval has no width.

    Args:
        successes: how many examples stayed right
        trials: how many there were

    >>> [round(limit, 4) for limit in wilson(0, 100)]
    [0.0, 0.037]
    """
    if trials == 0:
        return 0.0, 1.0
    p, z2 = successes / trials, _Z * _Z
    centre = (p + z2 / (2 * trials)) / (1 + z2 / trials)
    half = _Z * math.sqrt(p * (1 - p) / trials + z2 / (4 * trials**2)) / (1 + z2 / trials)
    return max(0.0, centre - half), min(1.0, centre + half)
