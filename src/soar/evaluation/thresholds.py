"""From where on a measurement counts against a model, and what it would take to find otherwise."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from torch import Tensor

from soar.evaluation.interval import paired, wilson
from soar.evaluation.shapes import Verdict as Verdict

# A check that could not be run might have found anything, so a model that misses one is not called sound;
# what another check did find against it still counts.
SEVERITY: dict[Verdict, int] = {"sound": 0, "inconclusive": 1, "suspicious": 2, "masked": 3}


@dataclass(frozen=True)
class Judgment:
    """A finding, and how far beyond its threshold the number lies.

    Args:
        finding: what follows from a number
        excess: its ratio to the threshold; 1 is at the threshold
        alternatives: what other images may show, where the interval of the number holds a threshold
    """

    finding: Verdict
    excess: float
    alternatives: tuple[Verdict, ...] = ()


def severity(judged: Judgment) -> tuple[int, float]:
    """Return what the most severe of several judgments is found by."""
    return SEVERITY[judged.finding], judged.excess


@dataclass(frozen=True, kw_only=True)
class Thresholds:
    """From where on a share of the examples counts against a model.

    A share counts only if it reaches a threshold and the lower end of its 95% interval reaches half of it,
    so that a handful of examples raises no alarm. A share of at least half a threshold whose interval holds
    the threshold is at the threshold: other images may show otherwise.

    Args:
        suspicious: from here on the finding is suspicious
        masked: from here on it is masked; without it the finding is never worse than suspicious
        halved: from here on it is masked where less than half of the examples is left

    >>> limits = Thresholds(suspicious=0.06, masked=0.12)
    >>> limits.judge(0.36, 0.30, 0.42), limits.judge(0.09, 0.07, 0.11).finding
    (Judgment(finding='masked', excess=3.0, alternatives=()), 'suspicious')
    >>> limits.judge(0.05, 0.02, 0.08)
    Judgment(finding='sound', excess=0.67, alternatives=('suspicious',))
    """

    suspicious: float = math.inf
    masked: float = math.inf
    halved: float = math.inf

    def judge(self, share: float, low: float, high: float | None = None) -> Judgment:
        """Return what a share means.

        Args:
            share: the share of examples that counts against the model
            low: the lower end of its interval
            high: the upper end; without it no alternatives are found
        """
        # Where both are the same, reaching it means the worse.
        limits: dict[float, Verdict] = {self.suspicious: "suspicious", self.masked: "masked"}
        limits.pop(math.inf, None)
        ratios = {reached: min(share / limit, low / (limit / 2)) for limit, reached in limits.items()}
        finding: Verdict = max(
            ("sound", *(one for one, ratio in ratios.items() if ratio >= 1)), key=SEVERITY.__getitem__
        )
        excess = ratios.get(finding, max(0.0, *ratios.values())) if ratios else 0.0
        others: list[Verdict] = []
        below: Verdict = "sound"
        for limit, reached in limits.items():
            if high is not None and low < limit <= high and share >= limit / 2:
                others.append(below if SEVERITY[finding] >= SEVERITY[reached] else reached)
            below = reached
        return Judgment(finding, round(excess, 2), tuple(others))

    def compare(self, before: Tensor, after: Tensor) -> tuple[Judgment, dict[str, float | int | str | None]]:
        """Compare what one attack leaves with what another leaves of the same examples.

        Where the other leaves less than half, the first was wrong about most of what it left, and `halved`
        is enough to call the model masked.

        Args:
            before: which examples are robust under the attack that may be misled
            after: which are robust under the attack that is not misled in that way

        Returns:
            What follows, and the difference with its interval for the record.
        """
        difference, low, high = paired(before, after)
        numbers: dict[str, float | int | str | None] = {"difference": difference, "low": low, "high": high}
        usual = self.judge(difference, low, high)
        if math.isinf(self.halved):
            return usual, numbers
        strict = replace(self, masked=self.halved, suspicious=min(self.halved, self.suspicious))
        halved = strict.judge(difference, low, high)
        many, left = int(before.sum()), int(after.sum())
        chosen, other = (halved, usual) if left < many / 2 else (usual, halved)
        low_share, high_share = wilson(min(left, many), many)
        if low_share < 0.5 < high_share and other.finding not in (chosen.finding, *chosen.alternatives):
            chosen = replace(chosen, alternatives=(*chosen.alternatives, other.finding))
        return chosen, numbers

    @property
    def rule(self) -> str:
        """The thresholds in words.

        >>> Thresholds(suspicious=0.06, masked=0.12).rule
        'from 6 points on suspicious, from 12 points on masked; if the 95% interval begins at half of that'
        """
        parts = {self.suspicious: "suspicious"} | {self.masked: "masked"}
        words = [
            f"from {100 * limit:g} points on {word}" for limit, word in parts.items() if limit < math.inf
        ]
        if self.halved < math.inf:
            words.append(f"from {100 * self.halved:g} points on masked if less than half is left")
        return f"{', '.join(words)}; if the 95% interval begins at half of that"
