"""Shares of examples and their confidence intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

_Z = 1.959963984540054  # 97.5% of the standard normal distribution lie below it


def share_of(flags: Tensor) -> float:
    """Return the share of flags that are set."""
    return int(flags.sum()) / max(1, len(flags))


def counted(flags: Tensor) -> tuple[float, float, float]:
    """Return the share of flags that are set, with its 95% interval (Wilson)."""
    return share_of(flags), *wilson(int(flags.sum()), len(flags))


def wilson(successes: int, trials: int) -> tuple[float, float]:
    r"""Return the 95% interval of a probability after counting successes (Wilson, 1927).

    (p + z^2/2n \pm z \sqrt{p(1-p)/n + z^2/4n^2}) / (1 + z^2/n)

    It stays inside [0, 1] and is honest also at 0 and 100%, where the usual interval has no width.

    Args:
        successes: how many examples count, such as those that are robust
        trials: how many there were

    >>> [round(limit, 4) for limit in wilson(0, 100)]
    [0.0, 0.037]
    """
    if trials == 0:
        return 0.0, 1.0
    p, z2 = successes / trials, _Z * _Z
    center = (p + z2 / (2 * trials)) / (1 + z2 / trials)
    half = _Z * math.sqrt(p * (1 - p) / trials + z2 / (4 * trials**2)) / (1 + z2 / trials)
    return max(0.0, center - half), min(1.0, center + half)


def clopper_pearson(successes: int, trials: int, alpha: float) -> float:
    r"""Return a lower confidence bound of a probability at level 1 - alpha (Clopper, Pearson, 1934).

    The p at which that many successes or more have probability alpha,
    \( \sum_{k \ge s} B(k; n, p) = \alpha \)

    Args:
        successes: how often it happened
        trials: how often it could have happened
        alpha: the probability that the bound is too high

    >>> round(clopper_pearson(1000, 1000, 0.001), 6), round(0.001 ** (1 / 1000), 6)
    (0.993116, 0.993116)
    """
    if successes == 0:
        return 0.0
    k = torch.arange(successes, trials + 1, dtype=torch.float64)
    choices = math.lgamma(trials + 1) - torch.lgamma(k + 1) - torch.lgamma(trials - k + 1)
    low, high = 0.0, 1.0
    for _ in range(50):
        p = (low + high) / 2
        tail = torch.logsumexp(choices + k * math.log(p) + (trials - k) * math.log1p(-p), dim=0)
        low, high = (p, high) if float(tail) < math.log(alpha) else (low, p)
    return low


def paired(first: Tensor, second: Tensor) -> tuple[float, float, float]:
    r"""Return how much larger the first share is on the same examples, with the 95% interval.

    d = (b - c)/n \pm z \sqrt{b + c + 1 - (b - c)^2/n} / n, where b examples count only for the first and
    c only for the second. Examples on which both agree carry no information, so the interval is narrower than
    that of two unrelated samples. The 1 under the root, half an example more on either side, gives it a width
    where both agree everywhere.

    Args:
        first: one flag per example
        second: flags of the same examples

    >>> import torch
    >>> flags = torch.tensor([True] * 40 + [False] * 60)
    >>> other = torch.tensor([True] * 30 + [False] * 70)
    >>> [round(number, 3) for number in paired(flags, other)]
    [0.1, 0.038, 0.162]
    """
    n = len(first)
    if n == 0:
        return 0.0, -1.0, 1.0
    b, c = int((first & ~second).sum()), int((second & ~first).sum())
    difference = (b - c) / n
    half = _Z * math.sqrt(b + c + 1 - (b - c) ** 2 / n) / n
    return difference, max(-1.0, difference - half), min(1.0, difference + half)


def average(numbers: Tensor) -> tuple[float, float, float]:
    r"""Return the mean of one number per example, with the 95% interval of the normal distribution.

    m \pm z s / \sqrt n, with the standard deviation s over n - 1; a single number has no interval.

    Args:
        numbers: one per example

    >>> import torch
    >>> [round(number, 2) for number in average(torch.tensor([1.0, 3.0]))]
    [2.0, 0.04, 3.96]
    """
    values = numbers.detach().double().cpu()
    middle, half = float(values.mean()), 0.0
    if len(values) > 1:
        half = _Z * float(values.std()) / math.sqrt(len(values))
    return middle, middle - half, middle + half


def is_tied(low: float, high: float) -> bool:
    """Return whether a difference with this 95% interval cannot be told apart from 0."""
    return low <= 0 <= high


def leading(shares: Sequence[float], difference: Callable[[int, int], tuple[float, float]]) -> list[int]:
    """Return the positions of the highest share and of all that are tied with it, the highest first.

    Only a position that is alone may be called the best.

    Args:
        shares: what is compared; none gives none
        difference: the 95% interval of the share at one position minus that at another

    >>> ends = {(1, 0): (-0.01, 0.05), (1, 2): (0.3, 0.4)}
    >>> leading([0.60, 0.62, 0.27], lambda one, other: ends[one, other])
    [1, 0]
    """
    if not shares:
        return []
    top = max(range(len(shares)), key=shares.__getitem__)
    others = (place for place in range(len(shares)) if place != top)
    return [top, *(place for place in others if is_tied(*difference(top, place)))]
