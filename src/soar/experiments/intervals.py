"""Numbers of a table with their 95% intervals."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from soar.evaluation.interval import average, leading, paired
from soar.experiments.result import Cell, Result

# 97.5% of Student's distribution lie below these, for 1 to 10 degrees of freedom.
_STUDENT = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)
_Z = 1.959964


@dataclass(frozen=True)
class Estimate:
    """A number and its 95% interval; the interval has no width where nothing is known about it."""

    value: float
    low: float
    high: float

    def __sub__(self, other: Estimate) -> Estimate:
        r"""Subtract a number that was measured independently (Newcombe, 1998, from two intervals).

        d - \sqrt{(a - a_{low})^2 + (b_{high} - b)^2} to d + \sqrt{(a_{high} - a)^2 + (b - b_{low})^2}

        >>> Estimate(50.0, 47.0, 53.0) - Estimate(40.0, 36.0, 44.0)
        Estimate(value=10.0, low=5.0, high=15.0)
        """
        value = self.value - other.value
        below = math.hypot(self.value - self.low, other.high - other.value)
        above = math.hypot(self.high - self.value, other.value - other.low)
        return Estimate(value, value - below, value + above)

    def __str__(self) -> str:
        if self.low == self.high:
            return f"{self.value:z.2f} (no interval known)"
        return f"{self.value:z.2f} ({self.low:z.2f} to {self.high:z.2f})"


def of(cell: Cell) -> Estimate:
    """Return the mean over seeds; its interval accounts for the examples and, from two seeds on, the seeds.

    Args:
        cell: one with values

    >>> of(Cell(values=(50.0, 50.0), low=47.0, high=53.0))
    Estimate(value=50.0, low=47.0, high=53.0)
    """
    assert cell.ours is not None
    first = _first(cell)
    spread = _spread(cell.values)
    return _around(cell.ours, first.value - first.low, first.high - first.value, spread)


def difference(one: Cell, other: Cell, *, same_networks: bool = False) -> Estimate:
    """Compute how much larger the first number is, paired by example where both are known per example.

    Several seeds widen the interval by their spread: another training is another network.

    Args:
        one: a cell with values
        other: another one with values in the same unit
        same_networks: whether both measured the same training runs, as two columns of one row did; then the
            differences are taken seed by seed

    >>> difference(Cell(values=(12.0,)), Cell(values=(10.5,)))
    Estimate(value=1.5, low=1.5, high=1.5)
    """
    assert one.ours is not None and other.ours is not None
    if one.flags is not None and other.flags is not None and one.flags.shape == other.flags.shape:
        first = Estimate(*(100 * number for number in paired(one.flags, other.flags)))
    elif one.each is not None and other.each is not None and len(one.each) == len(other.each):
        first = Estimate(*average(torch.tensor(one.each).double() - torch.tensor(other.each).double()))
    else:
        first = _first(one) - _first(other)
    if same_networks and len(one.values) == len(other.values):
        spread = _spread(tuple(a - b for a, b in zip(one.values, other.values, strict=True)))
    else:
        spread = _spread(one.values, other.values)
    return _around(one.ours - other.ours, first.value - first.low, first.high - first.value, spread)


def leaders(result: Result, column: str) -> list[str]:
    """Return the row with the highest number of a column and all rows tied with it, the highest first.

    Args:
        result: a table
        column: one of its columns; rows without a number there are left out
    """
    cells = {row: cells[column] for row, cells in result.rows.items() if column in cells}
    known = [(row, cell, cell.ours) for row, cell in cells.items() if cell.ours is not None]

    def apart(one: int, other: int) -> tuple[float, float]:
        found = difference(known[one][1], known[other][1])
        return found.low, found.high

    return [known[place][0] for place in leading([value for _, _, value in known], apart)]


def _first(cell: Cell) -> Estimate:
    """Return what is known from the first seed alone."""
    value = cell.values[0]
    low = value if cell.low is None else min(cell.low, value)
    high = value if cell.high is None else max(cell.high, value)
    return Estimate(value, low, high)


def _around(value: float, below: float, above: float, spread: float) -> Estimate:
    return Estimate(value, value - math.hypot(below, spread), value + math.hypot(above, spread))


def _spread(*groups: tuple[float, ...]) -> float:
    r"""Compute half the 95% interval of a difference of means due to the spread of seeds (Welch, 1947).

    t_\nu \sqrt{\sum v_i}, v_i = s_i^2 / n_i, \nu = (\sum v_i)^2 / \sum v_i^2 / (n_i - 1)

    >>> round(_spread((49.0, 50.0, 51.0), (40.0, 41.0, 42.0)), 3)  # 2.776 sqrt(2/3), 4 degrees of freedom
    2.267
    """
    total = weighted = 0.0
    for values in groups:
        n = len(values)
        if n > 1:
            mean = sum(values) / n
            variance = sum((value - mean) ** 2 for value in values) / (n - 1) / n
            total += variance
            weighted += variance**2 / (n - 1)
    if total == 0 or weighted == 0:
        return 0.0
    # The quotient may come out a rounding error below a whole number.
    return _student(int(total**2 / weighted + 1e-9)) * math.sqrt(total)


def _student(freedom: int) -> float:
    """Return the 97.5% quantile of Student's distribution, within 0.003 of the true one.

    >>> [round(_student(freedom), 2) for freedom in (2, 10, 30)]
    [4.3, 2.23, 2.04]
    """
    if freedom <= len(_STUDENT):
        return _STUDENT[freedom - 1]
    return _Z + (_Z**3 + _Z) / (4 * freedom) + (5 * _Z**5 + 16 * _Z**3 + 3 * _Z) / (96 * freedom**2)
