"""The paper's qualitative claims, each held, not held or undecided by our numbers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from soar.experiments.checks import ClaimCheck, Verdict, decide
from soar.experiments.result import Result


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A qualitative statement about the numbers of a table: an entry of `claims` in its file.

    Args:
        text: what it says, in our words; a threshold that the paper leaves open is stated
        source: where the paper says it; "bold print" or "its numbers" where only the table does
        checks: what has to hold
    """

    text: str
    source: str = ""
    checks: tuple[ClaimCheck, ...]


class Judged(NamedTuple):
    """A claim, its verdict, and the numbers that decide or that are missing."""

    claim: Claim
    verdict: Verdict
    why: str


def judge(claims: Iterable[Claim], result: Result) -> tuple[Judged, ...]:
    """Judge every claim by our numbers; those that are missing leave it undecided."""
    return tuple(Judged(one, *decide(one.checks, result.rows)[:2]) for one in claims)
