"""What a table needs, as plain values: measurements, rows of them, and the experiment they make up."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from soar.paper.tables import PaperTable

VERSION = 1
"""goes up when the same measurement would give another number, so that stored ones are not used"""


@dataclass(frozen=True)
class Measurement:
    """One number to be measured on a network.

    Args:
        kind: how, a name in `measurements.KINDS`
        options: what that kind needs to know, JSON values only
        sources: names of other networks that it needs
    """

    kind: str
    options: Mapping[str, Any] = field(default_factory=dict)
    sources: tuple[str, ...] = ()

    def key(self, network_key: str, source_keys: Sequence[str], examples: int, seed: int) -> str:
        """Give 16 hexadecimal digits that stand for everything that decides the number.

        Args:
            network_key: of the network that is measured; empty where there is none
            source_keys: of the networks that it needs, in the order of `sources`
            examples: how many test images
            seed: of the attacks

        >>> first = Measurement("accuracy", {"attack": "pgd", "steps": 20})
        >>> other = Measurement("accuracy", {"steps": 20, "attack": "pgd"})
        >>> first.key("a", (), 500, 0) == other.key("a", (), 500, 0) != first.key("a", (), 500, 1)
        True
        """
        content = [VERSION, self.kind, dict(self.options), network_key, list(source_keys), examples, seed]
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]

    def in_larger_ball(self, others: Iterable[Measurement]) -> Measurement | None:
        """Give the same measurement in the next larger ball, where who stays right there stays right here.

        So it is for FAB without restarts: its path to the border knows nothing of eps, which only says at
        which distance it may stop. Of other attacks a larger ball tells nothing.

        Args:
            others: measurements to choose from

        >>> small, large = (Measurement("accuracy", {"attack": "fab", "eps": eps}) for eps in ("1/2", "2/3"))
        >>> small.in_larger_ball([small, large]) == large, large.in_larger_ball([small, large])
        (True, None)
        """
        if self.options.get("attack") != "fab" or self.options.get("restarts", 1) > 1:
            return None
        same = [one for one in others if {**one.options, "eps": self.options["eps"]} == self.options]
        larger = [one for one in same if one.kind == self.kind and one.eps > self.eps]
        return min(larger, key=lambda one: one.eps, default=None)

    @property
    def eps(self) -> Fraction:
        """The radius of the ball."""
        return Fraction(self.options["eps"])


@dataclass(frozen=True, kw_only=True)
class RowPlan:
    """One row of a table and what is measured for it.

    Args:
        name: as in the paper's table
        network: the network that is measured; None where the numbers are about none
        columns: what to measure by column
        missing: why it is not measured, in a few words
        command: what would measure it
    """

    name: str
    network: str | None
    columns: Mapping[str, Measurement]
    missing: str = ""
    command: str = ""


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """A table of the paper and what has to be measured for it.

    Args:
        table: the paper's numbers
        rows: what to measure, one a row of the paper's
        caution: how it differs from what the paper did
    """

    table: PaperTable
    rows: tuple[RowPlan, ...]
    caution: str
