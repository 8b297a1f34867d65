"""Which classes break, and into what."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import torch
from torch import Tensor

from soar.attacks import PGD
from soar.data import Split
from soar.evaluation import Assessment
from soar.evaluation.assessment import WORST
from soar.report.content import Broken
from soar.report.exhibits.subject import Subject


def classes_broken(found: Assessment, classes: int, ends: Tensor) -> tuple[Broken, ...]:
    """Count for every class what is right, what holds, and where the others end.

    Args:
        found: the outcomes of all attacks
        classes: how many classes there are
        ends: the class that each broken example ends in; the label itself or -1 where it is not known
    """
    holds = found.survivors(WORST)
    is_broken = found.correct & ~holds & (ends != found.labels) & (ends >= 0)
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


def found_ends(found: Assessment, test: Split, subject: Callable[[Split], Subject]) -> tuple[int, ...]:
    """Attack once more what was broken, and see what it is taken for; for assessments that do not say it.

    Args:
        found: the outcomes of all attacks
        test: the examples that were attacked, among others
        subject: puts examples before the model
    """
    rows = {index: row for row, index in enumerate(test.indices.tolist())}
    is_asked = found.correct & ~found.survivors(WORST)
    is_asked &= torch.tensor([index in rows for index in found.index.tolist()], dtype=torch.bool)
    ends = torch.full_like(found.labels, -1)
    wanted = [rows[index] for index in found.index[is_asked].tolist()]
    if wanted:
        asked = subject(test.subset(torch.tensor(wanted)))
        outcomes = asked.attack(PGD(loss="margin"), asked.threat, torch.arange(len(wanted)))
        ends[is_asked] = asked.ask(outcomes.adversarial).argmax(dim=1).cpu()
    return tuple(ends.tolist())
