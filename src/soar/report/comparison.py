"""Runs against each other: which is best, by how much, and what stands against comparing them."""

from __future__ import annotations

from collections.abc import Sequence

from soar import text
from soar.errors import UserError
from soar.evaluation.assessment import WORST, Assessment
from soar.evaluation.compare import Comparison, Difference, compare
from soar.report.content import RunContent, standing


def difference(one: Assessment, other: Assessment, name: str) -> Difference | None:
    """Compare two assessments on the examples and attacks in common; None where there are none.

    Args:
        one: the first
        other: what is subtracted from it
        name: an attack's label, "clean" or "worst case"
    """
    found = _compared(one, other)
    return None if isinstance(found, str) else next((row for row in found.rows if row.name == name), None)


def points(found: Difference | None) -> str:
    """Write a difference in points with its paired 95% interval."""
    if found is None:
        return "not comparable"
    return f"{text.points(found.difference)} ({text.points(found.low)} to {text.points(found.high)})"


def is_clear(found: Difference) -> bool:
    """Return whether the interval leaves out zero."""
    return found.low > 0 or found.high < 0


def caveats(runs: Sequence[RunContent]) -> list[str]:
    """Say what stands between the runs and a fair comparison with the first, a sentence each."""
    said = []
    for run in runs[1:]:
        found = _compared(runs[0].assessment, run.assessment)
        pair = f"{runs[0].name} and {run.name}"
        if isinstance(found, str):
            said.append(f"{pair} are not compared, and no run is called best: {found}.")
            continue
        if found.left_out:
            said.append(f"{pair} were assessed on different examples; {found.examples} are in common.")
        if found.attacks_left_out:
            others = ", ".join(found.attacks_left_out)
            said.append(
                f"{pair} met different attacks: no run is called best, their difference leaves out {others}."
            )
    return said


def best(runs: Sequence[RunContent]) -> list[int]:
    """Return the places of the most robust runs, more than one where they are equal.

    A run whose diagnosis is not sound is never among them, one without a diagnosis may be. There is no best
    of one run, or of runs that met different data, threats or attacks.
    """
    trusted = [place for place, run in enumerate(runs) if standing(run).kind in ("sound", "unknown")]
    found = [_compared(runs[0].assessment, run.assessment) for run in runs[1:]]
    if len(runs) < 2 or not trusted or any(isinstance(one, str) or one.attacks_left_out for one in found):
        return []
    reached = {place: runs[place].assessment.accuracy(WORST) for place in trusted}
    return [place for place in trusted if reached[place] == max(reached.values())]


def _compared(one: Assessment, other: Assessment) -> Comparison | str:
    """Compare, or say why not."""
    try:
        return compare(one, other)
    except UserError as error:
        return str(error).removeprefix("assessments cannot be compared, ")
