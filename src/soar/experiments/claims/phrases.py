"""Short ways to say what a claim checks."""

from __future__ import annotations

from soar.experiments.claims.checks import Above, All, At, Check, LosesMore, Some


def higher(row: str, other: str, *columns: str, by: float = 0.0) -> Check:
    """A row has larger numbers than another in every one of the columns."""
    return All(*(Above(At(row, column), At(other, column), by) for column in columns))


def highest(row: str, among: tuple[str, ...], *columns: str) -> Check:
    """A row has the largest numbers of several rows."""
    parts = ((other, column) for column in columns for other in among if other != row)
    return All(*(Above(At(row, column), At(other, column)) for other, column in parts))


def lowest(row: str, among: tuple[str, ...], *columns: str) -> Check:
    """A row has the smallest numbers of several rows."""
    parts = ((other, column) for column in columns for other in among if other != row)
    return All(*(Above(At(other, column), At(row, column)) for other, column in parts))


def rising(rows: tuple[str, ...], *columns: str) -> Check:
    """Each row has larger numbers than the row before."""
    pairs = tuple(zip(rows[1:], rows[:-1], strict=True))
    return All(*(Above(At(one, column), At(before, column)) for column in columns for one, before in pairs))


def falls(row: str, start: str, end: str, by: float = 0.0) -> Check:
    """A row's number is smaller in the second column than in the first, by more than `by`."""
    return Above(At(row, start), At(row, end), by)


def keeps(row: str, start: str, end: str, points: float) -> Check:
    """A row loses less than so many points from one column to the other."""
    return Above(At(row, end), At(row, start), -points)


def peak(rows: tuple[str, ...], column: str) -> Check:
    """Some row between the first and the last has a larger number than both of them."""
    ends = (rows[0], rows[-1])
    return Some(*(highest(row, ends, column) for row in rows[1:-1]))


def loses_most(row: str, among: tuple[str, ...], start: str, end: str) -> Check:
    """From one column to another, a row loses more than each of several rows."""
    return All(*(LosesMore(row, other, start, end) for other in among if other != row))
