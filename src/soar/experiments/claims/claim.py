"""A statement of the paper, and what our numbers say to it."""

from __future__ import annotations

from dataclasses import dataclass, field

from soar.experiments.claims.checks import All, Check, Verdict


@dataclass(frozen=True)
class Claim:
    """A qualitative statement of the paper about one of its tables.

    Args:
        text: what it says, in our words; a threshold that the paper leaves open is stated
        source: where the paper says it; "bold print" or "its numbers" where only the table does
        check: what decides it
    """

    text: str
    source: str
    check: Check = field(default=All(), repr=False, compare=False)


@dataclass(frozen=True)
class Judged:
    """A claim and what became of it.

    Args:
        claim: what was judged
        verdict: held, not held, or undecided: the interval allows both, or a number is missing
        why: the numbers that decide
    """

    claim: Claim
    verdict: Verdict
    why: str
