"""Accuracy under common corruptions: what was found for each corruption and severity, and its table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from statistics import fmean
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from soar.evaluation.files import plain_fields, tensor_of
from soar.evaluation.interval import share_of
from soar.text import percent

if TYPE_CHECKING:
    from rich.table import Table

MEAN = "mean"
"""what the accuracy over all corruptions and severities is called"""


@dataclass(frozen=True, eq=False, kw_only=True)
class CorruptionResult:
    """What one corruption at one severity left of the accuracy, example by example."""

    name: str
    severity: int
    correct: Tensor
    """whether each corrupted image is correctly classified"""


@dataclass(frozen=True, eq=False, kw_only=True)
class Corruptions:
    """Accuracy under common corruptions, on the examples of an assessment.

    >>> import torch
    >>> flags = {1: [True, True], 2: [True, False]}
    >>> found = Corruptions(
    ...     source="made",
    ...     results=tuple(
    ...         CorruptionResult(name="fog", severity=severity, correct=torch.tensor(correct))
    ...         for severity, correct in flags.items()
    ...     ),
    ... )
    >>> found.accuracy(), found.accuracy("fog", 2)
    (0.75, 0.5)
    """

    source: str
    """where the corrupted images came from"""
    results: tuple[CorruptionResult, ...]

    @property
    def names(self) -> list[str]:
        """The corruptions, each once."""
        return [*dict.fromkeys(one.name for one in self.results)]

    @property
    def severities(self) -> list[int]:
        """The severities in ascending order."""
        return sorted({one.severity for one in self.results})

    def accuracy(self, name: str | None = None, severity: int | None = None) -> float:
        """Return the mean accuracy over corruptions and severities.

        Args:
            name: one corruption only
            severity: one severity only
        """
        return fmean(
            share_of(one.correct)
            for one in self.results
            if name in (None, one.name) and severity in (None, one.severity)
        )

    def select(self, rows: Tensor) -> Corruptions:
        """Return what was found on some examples only, in the order of `rows`."""
        return replace(self, results=tuple(replace(one, correct=one.correct[rows]) for one in self.results))

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain values, as it is stored."""
        accuracy = {name: self.accuracy(name) for name in self.names} | {MEAN: self.accuracy()}
        return {"accuracy": accuracy, **plain_fields(self)}

    @staticmethod
    def from_dict(stored: dict[str, Any], examples: int) -> Corruptions:
        """Restore what `as_dict` returned.

        Args:
            stored: plain values
            examples: how many examples there are

        Raises:
            ValueError: if parts of it contradict each other
        """
        results = tuple(
            CorruptionResult(**one | {"correct": tensor_of(one["correct"])}) for one in stored["results"]
        )
        found = Corruptions(source=stored["source"], results=results)
        for one in results:
            if len(one.correct) != examples:
                count = len(one.correct)
                raise ValueError(f"corruption {one.name} has {count} entries for {examples} examples")
        pairs = [(one.name, one.severity) for one in results]
        if not pairs or sorted(pairs) != sorted(product(found.names, found.severities)):
            raise ValueError("corruptions do not have every severity once")
        shares = {name: found.accuracy(name) for name in found.names} | {MEAN: found.accuracy()}
        if shares.keys() != stored["accuracy"].keys():
            raise ValueError("accuracy does not name the corruptions and their mean")
        for name, share in stored["accuracy"].items():
            if abs(share - shares[name]) > 1e-9:
                raise ValueError(f"accuracy of {name} is {share} but the examples give {shares[name]}")
        return found


def stack_corruptions(parts: Sequence[Corruptions | None]) -> Corruptions | None:
    """Join what was found on different examples; None unless all parts have it, from the same source."""
    known = [one for one in parts if one is not None]
    if len(known) < len(parts) or len({one.source for one in known}) != 1:
        return None
    return replace(
        known[0],
        results=tuple(
            replace(same[0], correct=torch.cat([one.correct for one in same]))
            for same in zip(*(one.results for one in known), strict=True)
        ),
    )


def corruption_rows(found: Corruptions) -> list[list[str]]:
    """Return the cells of a table: a row for each corruption and one for the mean of all.

    Each holds the name, the accuracy at every severity, and their mean.
    """
    return [
        [
            (name or MEAN).replace("_", " "),
            *(percent(found.accuracy(name, severity)) for severity in found.severities),
            percent(found.accuracy(name)),
        ]
        for name in (*found.names, None)
    ]


def corruption_table(found: Corruptions) -> Table:
    """Return a table of accuracy under each corruption at every severity."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    made = Table(
        box=box.SIMPLE_HEAD,
        title="Accuracy under common corruptions, by severity",
        title_justify="left",
        caption=Text(found.source, "table.caption"),
        caption_justify="left",
    )
    made.add_column("corruption", no_wrap=True)
    for severity in found.severities:
        made.add_column(str(severity), justify="right")
    made.add_column(MEAN, justify="right")
    for name, *numbers in corruption_rows(found):
        made.add_row(Text(name), *numbers, style="bold" if name == MEAN else "")
    return made
