"""The paper's qualitative claims, each held, not held or undecided by our numbers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

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
