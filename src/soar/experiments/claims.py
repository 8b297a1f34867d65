"""The paper's qualitative claims, each held, not held or undecided by our numbers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal

from soar.errors import UserError, unknown
from soar.experiments.checks import Above, At, Check, Level, LosesMore, Near, Peak, Verdict, decide
from soar.experiments.result import Result

Names = str | tuple[str, ...]
Groups = Mapping[str, tuple[str, ...]]
_OF_ROWS = ("rows", "above", "near", "lose_more_than", "rising", "peak")
_OF_COLUMNS = ("columns", "above_columns", "near_columns", "between")


@dataclass(frozen=True)
class Claim:
    """A qualitative statement about the numbers of a table.

    Args:
        text: what it says, in our words; a threshold that the paper leaves open is stated
        source: where the paper says it; "bold print" or "its numbers" where only the table does
        checks: what has to hold
    """

    text: str
    source: str
    checks: tuple[Check, ...] = field(default=(), repr=False, compare=False)


@dataclass(frozen=True)
class Judged:
    """A claim and whether our numbers bear it out.

    Args:
        claim: what was judged
        verdict: held, not held, or undecided: the interval allows both, or a number is missing
        why: the numbers that decide
    """

    claim: Claim
    verdict: Verdict
    why: str


def judge(claims: Iterable[Claim], result: Result) -> tuple[Judged, ...]:
    """Judge every claim by our numbers; those that are missing leave it undecided."""
    found = [(claim, decide(claim.checks, result.rows)) for claim in claims]
    return tuple(Judged(claim, one.verdict, one.why) for claim, one in found)


@dataclass(frozen=True, kw_only=True)
class CheckTable:
    """A check as a TOML file has it; it stands for all combinations of the names in its lists.

    Each list may be a single name, or the name of one of the file's groups. A row is never compared with
    itself, so that `rows = "SOAR", above = "defenses"` may name a group that SOAR belongs to.

    Args:
        rows: these rows
        columns: in each of these columns
        above: are above each of these rows, by more than `by`
        above_columns: or, in the same row, above each of these columns
        near: are near each of these rows, within `points` and `share` of their number
        near_columns: or, in the same row, near each of these columns
        over: are over this number
        under: are under this number
        lose_more_than: lose more than each of these rows
        between: from the first of these two columns to the second
        rising: each of these rows is above the one before
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
    rising: Names = ()
    peak: Names = ()
    by: float = 0.0
    points: float = 0.0
    share: float = 0.0

    def checks(
        self, groups: Groups, rows: Collection[str], columns: Collection[str], origin: str
    ) -> tuple[Check, ...]:
        """Return a check for every combination of names.

        Args:
            groups: names of rows or columns by the name of their group
            rows: those of the table
            columns: those of the table
            origin: the file, for messages

        Raises:
            UserError: if a row or column does not exist, or nothing is compared
        """

        def names(field_name: str, known: Collection[str], kind: str) -> tuple[str, ...]:
            given = getattr(self, field_name) or ()
            listed = [
                one
                for name in ([given] if isinstance(given, str) else given)
                for one in groups.get(name, (name,))
            ]
            for name in listed:
                if name not in known:
                    raise unknown(kind, name, known, f"{origin}: claims.checks.{field_name}")
            return tuple(listed)

        of = {name: names(name, rows, "row") for name in _OF_ROWS}
        of |= {name: names(name, columns, "column") for name in _OF_COLUMNS}
        places = [At(row, column) for row in of["rows"] for column in of["columns"]]
        by_column = [At(row, column) for column in of["columns"] for row in of["rows"]]

        def pairs(others: str, other_columns: str) -> Iterator[tuple[At, At]]:
            yield from (
                (at, At(other, at.column)) for at in by_column for other in of[others] if other != at.row
            )
            yield from ((at, At(at.row, column)) for at in places for column in of[other_columns])

        levels: list[tuple[Literal["over", "under"], float | None]] = [
            ("over", self.over),
            ("under", self.under),
        ]
        made: tuple[Check, ...] = (
            *(Above(*pair, self.by) for pair in pairs("above", "above_columns")),
            *(Near(*pair, self.points, self.share) for pair in pairs("near", "near_columns")),
            *(Level(at, side, level) for at in places for side, level in levels if level is not None),
            *(
                LosesMore(row, other, *of["between"])
                for row in of["rows"]
                for other in of["lose_more_than"]
                if other != row and self.between
            ),
            *(
                Above(At(row, column), At(before, column))
                for column in of["columns"]
                for before, row in pairwise(of["rising"])
            ),
            *(Peak(of["peak"], column) for column in of["columns"] if len(of["peak"]) > 2),
        )
        if not made:
            raise UserError(
                f"{origin}: got a check that compares nothing, expected rows and what they are above or near (field claims.checks)"
            )
        return made
