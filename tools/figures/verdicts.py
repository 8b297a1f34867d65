"""What diagnoses found by attacking in different ways: equal numbers where nothing is hidden."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tools.figures.drawing import BLUE, GRAY, GREEN, ORANGE, drawing

from soar.errors import UserError
from soar.evaluation.diagnosis import Diagnosis
from soar.theory import Rows

ATTACKS = {
    "cross-entropy": ("losses", "all on cross-entropy", ORANGE),
    "margins": ("losses", "all on margins", BLUE),
    "PGD-20": ("temperature", "PGD-20", GRAY),
    "PGD-20, softened logits": ("temperature", "PGD-20 softened", GREEN),
}


def numbers(diagnosis: Diagnosis) -> dict[str, float]:
    """Return the accuracy under each way to attack.

    Raises:
        UserError: if the diagnosis lacks a check
    """
    checks = {one.check: one.numbers for one in diagnosis.evidence}
    found = {name: checks.get(check, {}).get(key) for name, (check, key, _) in ATTACKS.items()}
    accuracies = {name: float(value) for name, value in found.items() if isinstance(value, float | int)}
    if len(accuracies) < len(ATTACKS):
        raise UserError(f"{diagnosis.model}: its diagnosis lacks the checks losses or temperature")
    return accuracies


def table(diagnoses: Sequence[Diagnosis]) -> Rows:
    """Return accuracies in percent, one network per row."""
    rows: Rows = []
    for diagnosis in diagnoses:
        found = {name: round(100 * value, 1) for name, value in numbers(diagnosis).items()}
        rows.append({"network": diagnosis.model, "verdict": diagnosis.verdict, **found})
    return rows


def draw(diagnoses: Sequence[Diagnosis], path: Path) -> None:
    """Draw the accuracies of each network on one line."""
    with drawing(path, width=8.4, height=1.7 + 0.65 * len(diagnoses)) as figure:
        axes = figure.add_subplot()
        axes.set_title("Where gradients are hidden, the way of attacking decides")
        axes.set(xlabel="right under attack, per cent")
        axes.grid(visible=True, axis="x")
        for height, diagnosis in enumerate(reversed(diagnoses)):
            found = numbers(diagnosis)
            for row, (name, (_, _, color)) in enumerate(ATTACKS.items()):
                # A little apart, so that equal numbers do not hide each other.
                label, place = name if height == 0 else None, height + 0.24 - 0.16 * row
                axes.plot([100 * found[name]], [place], "o", color=color, markersize=7, label=label)
        names = [f"{Path(one.model).name}\n{one.verdict}" for one in reversed(diagnoses)]
        axes.set_yticks(range(len(diagnoses)), names)
        axes.set_ylim(-0.6, len(diagnoses) - 0.4)
        axes.set_xlim(0, None)
        axes.legend(frameon=False, ncols=4, loc="upper center", bbox_to_anchor=(0.45, -0.25), fontsize=9)
