"""Which classes break, and into what."""

from __future__ import annotations

from collections import Counter

from torch import Tensor

from soar.evaluation import Assessment
from soar.evaluation.assessment import WORST
from soar.report.content import Broken


def classes_broken(found: Assessment, classes: int, ends: Tensor | None) -> tuple[Broken, ...]:
    """Count for every class what is right, what holds, and where the others end.

    Args:
        found: the outcomes of all attacks
        classes: how many classes there are
        ends: the class that each broken example ends in; the label itself, or None, where it is not known
    """
    holds = found.survivors(WORST)
    ends = found.labels if ends is None else ends
    is_broken = found.correct & ~holds & (ends != found.labels)
    table = []
    for label in range(classes):
        mine = found.labels == label
        into = Counter(ends[mine & is_broken].tolist())
        table.append(
            Broken(
                label=label,
                examples=int(mine.sum()),
                correct=int((mine & found.correct).sum()),
                robust=int((mine & holds).sum()),
                into=tuple(sorted(into.items(), key=lambda pair: (-pair[1], pair[0]))),
            )
        )
    return tuple(table)
