"""Comparisons of a table's numbers: each is held, not held or undecided by a 95% interval."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, NamedTuple

from soar.errors import UserError, unknown
from soar.experiments.intervals import Estimate, difference, of
from soar.experiments.result import Cell

Verdict = Literal["held", "not held", "undecided"]
Rows = Mapping[str, Mapping[str, Cell]]
Names = str | tuple[str, ...]
_OF_ROWS = ("rows", "above", "near", "lose_more_than", "peak")
_OF_COLUMNS = ("columns", "above_columns", "near_columns", "between")
_SHOWN = 2  # a claim about many cells shows this many of those that decide it


class Decision(NamedTuple):
    """What numbers decide about a comparison."""

    verdict: Verdict
    why: str
    room: float = -math.inf
    """distance from the interval to the other verdict; negative where the interval reaches over to it"""


class MissingError(Exception):
    """A number to compare is missing."""


class At(NamedTuple):
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


@dataclass(frozen=True, kw_only=True)
class ClaimCheck:
    """A statement about all combinations of the names in its lists, as a TOML file has it.

    A list may be a single name, and may have names of the file's groups in it. No row is compared with
    itself, so that `rows = "SOAR", above = "defended"` may name a group that SOAR belongs to.

    Args:
        rows: these rows
        columns: in each of these columns
        above: are above each of these rows, by more than `by`; at most -`by` below it if that is negative
        above_columns: or, in the same row, above each of these columns
        near: are within `points`, plus `share` of their number, of each of these rows
        near_columns: or, in the same row, of each of these columns
        over: are over this number
        under: are under this number
        lose_more_than: lose more than each of these rows
        between: from the first of these two columns to the second
        peak: some row inside this list is above both of its ends
    """

    rows: Names = ()
    columns: Names = ()
    above: Names = ()
    above_columns: Names = ()
    near: Names = ()
    near_columns: Names = ()
    over: float | None = None
    under: float | None = None
    lose_more_than: Names = ()
    between: tuple[str, str] | None = None
    peak: Names = ()
    by: float = 0.0
    points: float = 0.0
    share: float = 0.0

    def named(
        self,
        rows: Collection[str],
        columns: Collection[str],
        groups: Mapping[str, tuple[str, ...]],
        origin: str,
    ) -> ClaimCheck:
        """Return the same check with the names of groups replaced by those of their rows or columns.

        Args:
            rows: names of the table's rows
            columns: names of its columns
            groups: names of rows or columns by the name of their group
            origin: the file, for messages

        Raises:
            UserError: if a row or column does not exist, or nothing is compared
        """
        full: dict[str, Any] = {}
        for name in (*_OF_ROWS, *_OF_COLUMNS):
            kind, known = ("row", rows) if name in _OF_ROWS else ("column", columns)
            given = _listed(getattr(self, name) or ())
            full[name] = tuple(one for some in given for one in groups.get(some, (some,)))
            for one in full[name]:
                if one not in known:
                    raise unknown(kind, one, known, f"{origin}: claims.checks.{name}")
        check = replace(self, **full)
        if not any(True for _ in check.comparisons()):
            what = "expected rows and what they are above, near, over or under"
            raise UserError(f"{origin}: got a check that compares nothing, {what} (field claims.checks)")
        return check

    def comparisons(self) -> Iterator[Callable[[Rows], Decision]]:
        """Return a comparison for every combination; it raises MissingError where a number is missing."""
        rows, columns = _listed(self.rows), _listed(self.columns)
        for first, second in self._pairs(self.above, self.above_columns):
            yield partial(_above, first, second, self.by)
        for first, second in self._pairs(self.near, self.near_columns):
            yield partial(_near, first, second, self.points, self.share)
        for at in [At(row, column) for row in rows for column in columns]:
            if self.over is not None:
                yield partial(_level, at, "over", self.over)
            if self.under is not None:
                yield partial(_level, at, "under", self.under)
        for row in rows:
            for other in _listed(self.lose_more_than):
                if self.between and other != row:
                    yield partial(_loses_more, row, other, self.between)
        for column in columns:
            if len(_listed(self.peak)) > 2:
                yield partial(_peak, _listed(self.peak), column)

    def _pairs(self, other_rows: Names, other_columns: Names) -> Iterator[tuple[At, At]]:
        rows, columns = _listed(self.rows), _listed(self.columns)
        for column in columns:
            for row in rows:
                yield from (
                    (At(row, column), At(other, column)) for other in _listed(other_rows) if other != row
                )
        for row in rows:
            for column in columns:
                yield from ((At(row, column), At(row, other)) for other in _listed(other_columns))


def decide(checks: Iterable[ClaimCheck], rows: Rows) -> Decision:
    """Decide whether all checks hold; one comparison that does not hold decides.

    The decision shows what it rests on: the clearest failures, the widest doubts, or the closest success.

    Args:
        checks: what has to hold; without any, nothing is decided
        rows: cells by row and column, as in Result
    """
    found = [_compare(one, rows) for check in checks for one in check.comparisons()]
    if not found:
        return Decision("undecided", "nothing decides it")
    against = sorted((one for one in found if one.verdict == "not held"), key=lambda one: -one.room)
    doubtful = sorted((one for one in found if one.verdict == "undecided"), key=lambda one: one.room)
    several = len(found) > 1
    if not (against or doubtful):
        closest = min(found, key=lambda one: one.room)
        before = f"all {len(found)} comparisons; closest: " if several else ""
        return closest._replace(why=before + closest.why)
    decisive = against or doubtful
    first = decisive[0]
    before = f"{first.verdict} in {len(decisive)} of {len(found)} comparisons: " if several else ""
    more = f"; and {len(decisive) - _SHOWN} more" if len(decisive) > _SHOWN else ""
    return first._replace(why=before + "; ".join(one.why for one in decisive[:_SHOWN]) + more)


def _compare(comparison: Callable[[Rows], Decision], rows: Rows) -> Decision:
    try:
        return comparison(rows)
    except MissingError as missing:
        return Decision("undecided", str(missing))


def _above(first: At, second: At, by: float, rows: Rows) -> Decision:
    found = _difference(first, second, rows)
    return _over(found, by, f"{_minus(first, second)} is {found}")


def _near(first: At, second: At, points: float, share: float, rows: Rows) -> Decision:
    found = _difference(first, second, rows)
    allowed = points + share * abs(of(second.cell(rows)).value)
    why = f"{_minus(first, second)} is {found}, allowed {allowed:.2g}"
    inside = min(found.low + allowed, allowed - found.high)
    outside = max(found.low - allowed, -allowed - found.high)
    if inside >= 0:
        return Decision("held", why, inside)
    return Decision("not held", why, outside) if outside > 0 else Decision("undecided", why, inside)


def _level(at: At, side: str, level: float, rows: Rows) -> Decision:
    found = of(at.cell(rows))
    why = f"{at} is {found}, to be {side} {level:g}"
    if side == "over":
        return _over(found, level, why)
    return _over(Estimate(-found.value, -found.high, -found.low), -level, why)


def _loses_more(row: str, other: str, between: tuple[str, str], rows: Rows) -> Decision:
    """Compare two differences as if they were independent, which makes the interval rather too wide."""
    start, end = between
    lost, less = (_difference(At(one, start), At(one, end), rows) for one in (row, other))
    found = lost - less
    losses = f"{row} loses {lost.value:.2f} and {other} {less.value:.2f} from {start} to {end}"
    return _over(found, 0.0, f"{losses}: more by {found}")


def _peak(names: tuple[str, ...], column: str, rows: Rows) -> Decision:
    """Show the row for which this is clearest, or else the one that comes nearest to it."""
    ends = (names[0], names[-1])
    found = [decide([ClaimCheck(rows=row, above=ends, columns=column)], rows) for row in names[1:-1]]
    for verdict in ("held", "undecided"):
        some = [one for one in found if one.verdict == verdict]
        if some:
            return max(some, key=lambda one: one.room)
    nearest = min(found, key=lambda one: one.room)
    return nearest._replace(why=f"none of {len(found)}; nearest: {nearest.why}")


def _difference(first: At, second: At, rows: Rows) -> Estimate:
    return difference(first.cell(rows), second.cell(rows), same_networks=first.row == second.row)


def _minus(first: At, second: At) -> str:
    """Return the name of a difference without repeating what both places have in common."""
    if first.row == second.row:
        return f"{first.title}: {first.column} minus {second.column}"
    return f"{first.title} minus {second.title}{first.where}"


def _over(found: Estimate, level: float, why: str) -> Decision:
    if found.low > level:
        return Decision("held", why, found.low - level)
    if found.high < level:
        return Decision("not held", why, level - found.high)
    return Decision("undecided", why, found.low - level)


def _listed(names: Names) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else names
