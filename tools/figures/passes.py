"""How many passes each image costs when it leaves the batch as soon as it is fooled."""

from __future__ import annotations

from itertools import accumulate, groupby
from pathlib import Path

import torch
from tools.figures.command import Section
from tools.figures.drawing import BLUE, GRAY, ORANGE, drawing
from torch import Tensor

from soar.errors import UserError
from soar.evaluation.assessment import Assessment
from soar.evaluation.attack_result import AttackResult
from soar.theory import Rows


def choose(assessment: Assessment, label: str) -> AttackResult:
    """Return the result of an attack.

    Raises:
        UserError: if the assessment has none of that name
    """
    found = {result.label: result for result in assessment.attacks}
    if label not in found:
        raise UserError(f"--attack: got '{label}', expected one of {', '.join(found)}")
    return found[label]


def spent(result: AttackResult) -> Tensor:
    """Return the passes per image, forward and backward, and the one for the clean prediction."""
    return 1 + result.forward + result.backward


def unspared(result: AttackResult) -> int:
    """Return the passes per image where none can leave the batch: those of the whole attack."""
    return int((result.forward + result.backward).max())


def table(assessment: Assessment, label: str) -> Rows:
    """Count images by what became of them, and the passes they took."""
    result = choose(assessment, label)
    each, everyone = spent(result), torch.ones_like(assessment.correct)
    groups = {
        "wrong from the start": (~assessment.correct, each),
        "fooled": (assessment.correct & ~result.robust, each),
        "stay right": (result.robust, each),
        "all": (everyone, each),
        "all, if none could leave": (everyone, torch.full_like(each, unspared(result))),
    }
    return [
        {
            "images": name,
            "count": int(group.sum()),
            "passes an image": float(passes[group].double().mean()) if group.any() else 0.0,
            "all their passes": int(passes[group].sum()),
        }
        for name, (group, passes) in groups.items()
    ]


def sections(assessment: Assessment, label: str) -> list[Section]:
    """Return the table under its title."""
    return [Section(f"{label} on {assessment.model}, {assessment.threat}", table(assessment, label))]


def draw(assessment: Assessment, label: str, path: Path) -> None:
    """Draw the passes of every image; the area is their sum."""
    result = choose(assessment, label)
    each, count = sorted(spent(result).tolist(), reverse=True), len(assessment)
    full = unspared(result)
    stay, right = int(result.robust.sum()), int(assessment.correct.sum())
    runs = [(value, len(list(group))) for value, group in groupby(each)]
    edges = [0, *accumulate(length for _, length in runs)]
    with drawing(path, width=8.4, height=3.7) as figure:
        axes = figure.add_subplot()
        axes.set_title(f"{label}: {sum(each) / (full * count):.2f} of the passes when images may leave")
        axes.set(xlabel="images, the most expensive first", ylabel="forward + backward passes")
        axes.set(xlim=(0, count), ylim=(0, full * 1.15))
        axes.stairs([full], [0, count], color=GRAY, alpha=0.2, fill=True)
        axes.stairs([value for value, _ in runs], edges, color=BLUE, fill=True)
        marks = {"stay right": stay / 2, "fooled": (stay + right) / 2, "wrong anyway": (right + count) / 2}
        for text, place in marks.items():
            axes.text(place, full * 1.05, text, ha="center", va="bottom", color=ORANGE)
        for place in (stay, right):
            axes.axvline(place, color=ORANGE, linewidth=1, linestyle=":")
        axes.text((right + count) / 2, full / 2, "spared", ha="center")
