"""From a difference and how sure it is to a finding: the one rule behind every check made of attacks."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from torch import Tensor

from soar.evaluation.diagnosis import SEVERITY, Evidence, Verdict
from soar.evaluation.interval import paired, wilson


@dataclass(frozen=True, kw_only=True)
class Thresholds:
    """From where on a share of the examples counts against a model.

    A share counts only if it reaches a threshold and the lower end of its 95% interval reaches half of it,
    so that a handful of examples raises no alarm.

    Args:
        suspicious: from here on the finding is suspicious
        masked: from here on it is masked; without it the finding is never worse than suspicious

    >>> limits = Thresholds(suspicious=0.06, masked=0.12)
    >>> limits.judge(0.36, 0.30), limits.judge(0.09, 0.04), limits.judge(0.09, 0.01).finding
    (Judgment(finding='masked', excess=3.0), Judgment(finding='suspicious', excess=1.33), 'sound')
    """

    suspicious: float
    masked: float = math.inf

    def judge(self, share: float, low: float) -> Judgment:
        """Say what a share means.

        Args:
            share: the share of examples that speaks against the model
            low: the lower end of its interval
        """
        limits: dict[Verdict, float] = {"masked": self.masked, "suspicious": self.suspicious}
        for finding, limit in limits.items():
            excess = min(share / limit, low / (limit / 2))
            if excess >= 1:
                return Judgment(finding, round(excess, 2))
        return Judgment("sound", round(max(0.0, excess), 2))

    def compare(self, before: Tensor, after: Tensor) -> Comparison:
        """Set what one attack leaves against what another leaves of the same examples.

        Where the other leaves less than half, the first was wrong about the most of what it left, and the
        threshold of suspicion is enough to call the model masked.

        Args:
            before: which examples stay correctly classified under the attack that may be misled
            after: which do so under the attack that is not misled in that way
        """
        difference, low, high = paired(before, after)
        limits = self
        if not math.isinf(self.masked) and int(after.sum()) < int(before.sum()) / 2:
            limits = replace(self, masked=self.suspicious)
        return Comparison(difference, low, high, limits.judge(difference, low))

    @property
    def rule(self) -> str:
        """The thresholds in words.

        >>> Thresholds(suspicious=0.06, masked=0.12).rule
        'from 6 points on suspicious, from 12 points on masked, if the 95% interval begins at half of that'
        """
        masked = "" if math.isinf(self.masked) else f", from {100 * self.masked:g} points on masked"
        return (
            f"from {100 * self.suspicious:g} points on suspicious{masked},"
            " if the 95% interval begins at half of that"
        )


HALVED = "; less than half is left: masked from the first threshold on"
"""what `Thresholds.compare` adds to a rule"""


@dataclass(frozen=True)
class Comparison:
    """How much more one attack leaves than another, with its 95% interval, and what that means."""

    difference: float
    low: float
    high: float
    judged: Judgment


@dataclass(frozen=True)
class Judgment:
    """A finding, and how far beyond its threshold the number lies."""

    finding: Verdict
    excess: float

    @property
    def gravity(self) -> tuple[int, float]:
        """What the gravest of several judgments is found by."""
        return SEVERITY[self.finding], self.excess


def share_of(flags: Tensor) -> float:
    """Return the share of flags that are set."""
    return int(flags.sum()) / max(1, len(flags))


def counted(flags: Tensor) -> tuple[float, float, float]:
    """Return the share of flags that are set, with its 95% interval (Wilson)."""
    return share_of(flags), *wilson(int(flags.sum()), len(flags))


def not_made(check: str, title: str, rule: str, why: str) -> Evidence:
    """Return the evidence of a check that could not be made."""
    sentence = f"Could not be checked: {why}."
    return Evidence(check=check, title=title, finding="inconclusive", sentence=sentence, rule=rule)
