"""Comparisons of a table's numbers: each is held, not held or undecided by a 95 % interval."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

from soar.experiments.intervals import Estimate, difference, of
from soar.experiments.result import Cell

Verdict = Literal["held", "not held", "undecided"]
Rows = Mapping[str, Mapping[str, Cell]]
_SHOWN = 2  # a claim about many cells shows this many of those that decide it


@dataclass(frozen=True)
class Decision:
    """What numbers decide about a comparison.

    Args:
        verdict: undecided where the interval allows both, or a number is missing
        why: the numbers
        room: distance from the interval to the other verdict; negative where the interval reaches over to it
    """

    verdict: Verdict
    why: str
    room: float = -math.inf


class MissingError(Exception):
    """A number to compare is missing."""


class Check(Protocol):
    """A comparison that the numbers of a table may bear out or not."""

    def compare(self, rows: Rows) -> Decision:
        """Compare numbers.

        Args:
            rows: cells by row and column, as in Result

        Raises:
            MissingError: if one of them was not measured
        """
        ...


@dataclass(frozen=True)
class At:
    """A place in the table."""

    row: str
    column: str

    def cell(self, rows: Rows) -> Cell:
        """Return the cell, if it has a usable number."""
        cell = rows.get(self.row, {}).get(self.column)
        if cell is None or cell.ours is None:
            reason = cell.missing if cell is not None and cell.missing else "not part of this result"
            raise MissingError(f"not measured: {self} ({reason})")
        if not all(math.isfinite(value) for value in cell.values):
            raise MissingError(f"not a number: {self}")
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

    def compare(self, rows: Rows) -> Decision:
        """Compare two cells."""
        found = _difference(self.first, self.second, rows)
        return _over(found, self.by, f"{_minus(self.first, self.second)} is {found}")


@dataclass(frozen=True)
class Near:
    """Two numbers differ by at most `points`, plus `share` of the second."""

    first: At
    second: At
    points: float = 0.0
    share: float = 0.0

    def compare(self, rows: Rows) -> Decision:
        """Compare two cells."""
        found = _difference(self.first, self.second, rows)
        allowed = self.points + self.share * abs(of(self.second.cell(rows)).value)
        why = f"{_minus(self.first, self.second)} is {found}, allowed {allowed:.2g}"
        inside = min(found.low + allowed, allowed - found.high)
        outside = max(found.low - allowed, -allowed - found.high)
        if inside >= 0:
            return Decision("held", why, inside)
        return Decision("not held", why, outside) if outside > 0 else Decision("undecided", why, inside)


@dataclass(frozen=True)
class Level:
    """A number is over a level, or under it."""

    at: At
    side: Literal["over", "under"]
    level: float

    def compare(self, rows: Rows) -> Decision:
        """Compare one cell with a fixed number."""
        found = of(self.at.cell(rows))
        why = f"{self.at} is {found}, to be {self.side} {self.level:g}"
        if self.side == "over":
            return _over(found, self.level, why)
        return _over(Estimate(-found.value, -found.high, -found.low), -self.level, why)


@dataclass(frozen=True)
class LosesMore:
    """From one column to another, a row loses more than another row does."""

    row: str
    other: str
    start: str
    end: str

    def compare(self, rows: Rows) -> Decision:
        """Compare two differences as if they were independent, which makes the interval rather too wide."""
        lost, less = (
            _difference(At(row, self.start), At(row, self.end), rows) for row in (self.row, self.other)
        )
        found = lost - less
        between = f"from {self.start} to {self.end}"
        why = (
            f"{self.row} loses {lost.value:.2f} and {self.other} {less.value:.2f} {between}: more by {found}"
        )
        return _over(found, 0.0, why)


@dataclass(frozen=True)
class Peak:
    """Some row between the first and the last has a larger number than both of them."""

    rows: tuple[str, ...]
    column: str

    def compare(self, rows: Rows) -> Decision:
        """Show the row for which this is clearest, or else the one that comes nearest to it."""
        ends = [At(row, self.column) for row in (self.rows[0], self.rows[-1])]
        found = [decide((Above(At(row, self.column), end) for end in ends), rows) for row in self.rows[1:-1]]
        for verdict in ("held", "undecided"):
            some = [one for one in found if one.verdict == verdict]
            if some:
                return max(some, key=lambda one: one.room)
        nearest = min(found, key=lambda one: one.room)
        return Decision("not held", f"none of {len(found)}; nearest: {nearest.why}", nearest.room)


def decide(checks: Iterable[Check], rows: Rows) -> Decision:
    """Decide whether all checks hold; one that does not hold decides. Without any, nothing is decided.

    The decision shows the checks that it rests on: the clearest failures, or the widest doubts.

    Args:
        checks: what has to hold
        rows: cells by row and column
    """
    found = [_compare(check, rows) for check in checks]
    if not found:
        return Decision("undecided", "nothing decides it")
    against = sorted((one for one in found if one.verdict == "not held"), key=lambda one: -one.room)
    doubtful = sorted((one for one in found if one.verdict == "undecided"), key=lambda one: one.room)
    if against or doubtful:
        return _several(against or doubtful, len(found))
    closest = min(found, key=lambda one: one.room)
    before = f"all {len(found)} comparisons; closest: " if len(found) > 1 else ""
    return Decision("held", before + closest.why, closest.room)


def _compare(check: Check, rows: Rows) -> Decision:
    try:
        return check.compare(rows)
    except MissingError as missing:
        return Decision("undecided", str(missing))


def _difference(first: At, second: At, rows: Rows) -> Estimate:
    return difference(first.cell(rows), second.cell(rows), same_networks=first.row == second.row)


def _minus(first: At, second: At) -> str:
    """Name a difference without repeating what both places have in common.

    >>> _minus(At("SOAR", "PGD20"), At("ADV", "PGD20"))
    'SOAR minus ADV under PGD20'
    >>> _minus(At("loss of gradient descent", "value"), At("loss of SOAR", "value"))
    'loss of gradient descent minus loss of SOAR'
    """
    if first.row == second.row:
        return f"{first.title}: {first.column} minus {second.column}"
    return f"{first.title} minus {second.title}{first.where}"


def _over(found: Estimate, level: float, why: str) -> Decision:
    if found.low > level:
        return Decision("held", why, found.low - level)
    if found.high < level:
        return Decision("not held", why, level - found.high)
    return Decision("undecided", why, found.low - level)


def _several(decisive: list[Decision], of_all: int) -> Decision:
    """Join what decides into one line, the most important first."""
    reasons = [one.why for one in decisive]
    more = f"; and {len(reasons) - _SHOWN} more" if len(reasons) > _SHOWN else ""
    verdict = decisive[0].verdict
    before = f"{verdict} in {len(decisive)} of {of_all} comparisons: " if of_all > 1 else ""
    return Decision(verdict, before + "; ".join(reasons[:_SHOWN]) + more, decisive[0].room)
