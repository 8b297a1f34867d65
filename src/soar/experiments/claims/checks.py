"""The few kinds of checks that claims are made of."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

from soar.experiments.claims.estimate import Estimate, difference, of
from soar.experiments.table_result import Cell

Verdict = Literal["held", "not held", "undecided"]
Rows = Mapping[str, Mapping[str, Cell]]
_SHOWN = 2  # a claim about many cells shows this many of those that decide it


@dataclass(frozen=True)
class Finding:
    """What a check found, and from which numbers."""

    verdict: Verdict
    why: str
    room: float = -math.inf
    """how far the interval is on the side of the verdict; negative where it reaches over to the other side"""


class Check(Protocol):
    """Something that the numbers of a table may show or not."""

    def look(self, rows: Rows) -> Finding:
        """Look at our numbers.

        Args:
            rows: cells by row and column, as in TableResult
        """
        ...


class _MissingError(Exception):
    """There is no number to look at."""


@dataclass(frozen=True)
class At:
    """A place in the table."""

    row: str
    column: str

    def cell(self, rows: Rows) -> Cell:
        """Give the cell, if it has a usable number."""
        cell = rows.get(self.row, {}).get(self.column)
        if cell is None or cell.ours is None:
            reason = cell.missing if cell is not None and cell.missing else "not part of this result"
            raise _MissingError(f"not measured: {self} ({reason})")
        if not all(math.isfinite(value) for value in cell.values):
            raise _MissingError(f"not a number: {self}")
        return cell

    @property
    def title(self) -> str:
        """The row's name; a bare number, such as a beta, would read like a value."""
        return f"row {self.row}" if self.row[:1].isdigit() else self.row

    @property
    def where(self) -> str:
        """The column in words; the only column of a list of quantities needs none."""
        return "" if self.column == "value" else f" under {self.column}"

    def __str__(self) -> str:
        return f"{self.title}{self.where}"


@dataclass(frozen=True)
class Above:
    """The first number is larger than the second, by more than `by`; less than -`by` below it if negative."""

    first: At
    second: At
    by: float = 0.0

    def look(self, rows: Rows) -> Finding:
        """Compare two cells."""
        try:
            found = _difference(self.first, self.second, rows)
        except _MissingError as missing:
            return Finding("undecided", str(missing))
        return _over(found, self.by, f"{_minus(self.first, self.second)} is {found}")


@dataclass(frozen=True)
class Near:
    """Two numbers differ by at most `points`, plus `share` of the second."""

    first: At
    second: At
    points: float = 0.0
    share: float = 0.0

    def look(self, rows: Rows) -> Finding:
        """Compare two cells."""
        try:
            found = _difference(self.first, self.second, rows)
            allowed = self.points + self.share * abs(of(self.second.cell(rows)).value)
        except _MissingError as missing:
            return Finding("undecided", str(missing))
        why = f"{_minus(self.first, self.second)} is {found}, allowed {allowed:.2g}"
        inside = min(found.low + allowed, allowed - found.high)
        outside = max(found.low - allowed, -allowed - found.high)
        if inside >= 0:
            return Finding("held", why, inside)
        return Finding("not held", why, outside) if outside > 0 else Finding("undecided", why, inside)


@dataclass(frozen=True)
class Level:
    """A number is over a level, or under it."""

    at: At
    over: float | None = None
    under: float | None = None

    def look(self, rows: Rows) -> Finding:
        """Compare one cell with a fixed number."""
        try:
            found = of(self.at.cell(rows))
        except _MissingError as missing:
            return Finding("undecided", str(missing))
        if self.over is not None:
            return _over(found, self.over, f"{self.at} is {found}, to be over {self.over:g}")
        assert self.under is not None
        negative = Estimate(-found.value, -found.high, -found.low)
        return _over(negative, -self.under, f"{self.at} is {found}, to be under {self.under:g}")


@dataclass(frozen=True)
class LosesMore:
    """From one column to another, a row loses more than another row does."""

    row: str
    other: str
    start: str
    end: str

    def look(self, rows: Rows) -> Finding:
        """Compare two differences, as if measured independently: that makes the interval rather too wide."""
        try:
            lost, less = (
                _difference(At(row, self.start), At(row, self.end), rows) for row in (self.row, self.other)
            )
        except _MissingError as missing:
            return Finding("undecided", str(missing))
        found = lost - less
        between = f"from {self.start} to {self.end}"
        why = (
            f"{self.row} loses {lost.value:.2f} and {self.other} {less.value:.2f} {between}: more by {found}"
        )
        return _over(found, 0.0, why)


class All:
    """Every part is held; one that is not decides. Without parts, nothing is decided."""

    def __init__(self, *parts: Check) -> None:
        self.parts = parts

    def look(self, rows: Rows) -> Finding:
        """Look at every part and show those that decide: the clearest failures, the widest doubts."""
        found = [part.look(rows) for part in self.parts]
        if not found:
            return Finding("undecided", "nothing decides it")
        against = sorted((one for one in found if one.verdict == "not held"), key=lambda one: -one.room)
        doubtful = sorted((one for one in found if one.verdict == "undecided"), key=lambda one: one.room)
        if against or doubtful:
            return _several(against or doubtful, len(found))
        closest = min(found, key=lambda one: one.room)
        before = f"all {len(found)} comparisons; closest: " if len(found) > 1 else ""
        return Finding("held", before + closest.why, closest.room)


class Some:
    """At least one part is held."""

    def __init__(self, *parts: Check) -> None:
        self.parts = parts

    def look(self, rows: Rows) -> Finding:
        """Look at every part and show the one that is held most clearly, or else the one nearest to it."""
        found = [part.look(rows) for part in self.parts]
        for verdict in ("held", "undecided"):
            some = [one for one in found if one.verdict == verdict]
            if some:
                return max(some, key=lambda one: one.room)
        nearest = min(found, key=lambda one: one.room)
        return Finding("not held", f"none of {len(found)}; nearest: {nearest.why}", nearest.room)


def _difference(first: At, second: At, rows: Rows) -> Estimate:
    return difference(first.cell(rows), second.cell(rows), same_networks=first.row == second.row)


def _minus(first: At, second: At) -> str:
    """Name a difference without saying twice what both have in common.

    >>> _minus(At("SOAR", "PGD20"), At("ADV", "PGD20"))
    'SOAR minus ADV under PGD20'
    >>> _minus(At("loss of gradient descent", "value"), At("loss of SOAR", "value"))
    'loss of gradient descent minus loss of SOAR'
    """
    if first.row == second.row:
        return f"{first.title}: {first.column} minus {second.column}"
    if first.column == second.column:
        return f"{first.title} minus {second.title}{first.where}"
    return f"{first} minus {second}"


def _over(found: Estimate, level: float, why: str) -> Finding:
    if found.low > level:
        return Finding("held", why, found.low - level)
    if found.high < level:
        return Finding("not held", why, level - found.high)
    return Finding("undecided", why, found.low - level)


def _several(decisive: list[Finding], of_all: int) -> Finding:
    """Join what decides into one line, the most important first."""
    reasons = [one.why for one in decisive]
    more = f"; and {len(reasons) - _SHOWN} more" if len(reasons) > _SHOWN else ""
    verdict = decisive[0].verdict
    before = f"{verdict} in {len(decisive)} of {of_all} comparisons: " if of_all > 1 else ""
    return Finding(verdict, before + "; ".join(reasons[:_SHOWN]) + more, decisive[0].room)
