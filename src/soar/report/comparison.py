"""Comparing runs: which is best, by how much, and what makes a comparison unfair."""

from __future__ import annotations

from collections.abc import Sequence

from soar import text
from soar.errors import UserError
from soar.evaluation.assessment import WORST, Assessment
from soar.evaluation.compare import Comparison, Difference, compare
from soar.report.content import RunContent


def difference(one: Assessment, other: Assessment, name: str) -> Difference | None:
    """Compare two assessments on the examples and attacks in common; None where there are none.

    Args:
        one: the first
        other: what is subtracted from it
        name: an attack's label, "clean" or "worst case"
    """
    found = _compare(one, other)
    return None if isinstance(found, str) else next((row for row in found.rows if row.name == name), None)


def points(found: Difference | None) -> str:
    """Format a difference in points with its paired 95% interval."""
    if found is None:
        return "not comparable"
    return f"{text.points(found.difference)} ({text.points(found.low)} to {text.points(found.high)})"


def caveats(runs: Sequence[RunContent]) -> list[str]:
    """Return what makes the comparison of the runs with the first unfair, one sentence each."""
    sentences = []
    for run in runs[1:]:
        found = _compare(runs[0].assessment, run.assessment)
        pair = f"{runs[0].name} and {run.name}"
        if isinstance(found, str):
            sentences.append(f"{pair} are not compared, and no run is called best: {found}.")
            continue
        if found.left_out:
            sentences.append(f"{pair} were assessed on different examples; {found.examples} are in common.")
        if found.attacks_left_out:
            others = ", ".join(found.attacks_left_out)
            sentences.append(
                f"{pair} met different attacks: no run is called best, their difference leaves out {others}."
            )
    return sentences


def best(runs: Sequence[RunContent]) -> list[int]:
    """Return the positions of the most robust runs, more than one where they are equal.

    A run whose diagnosis is not sound is never among them, one without a diagnosis may be. There is no best
    of a single run, or of runs that were assessed on different data, threats or attacks.
    """
    trusted = [place for place, run in enumerate(runs) if run.verdict.kind in ("sound", "unknown")]
    found = [_compare(runs[0].assessment, run.assessment) for run in runs[1:]]
    if len(runs) < 2 or not trusted or any(isinstance(one, str) or one.attacks_left_out for one in found):
        return []
    reached = {place: runs[place].assessment.accuracy(WORST) for place in trusted}
    return [place for place in trusted if reached[place] == max(reached.values())]


def _compare(one: Assessment, other: Assessment) -> Comparison | str:
    """Compare two assessments, or return why they cannot be compared."""
    try:
        return compare(one, other)
    except UserError as error:
        return str(error).removeprefix("assessments cannot be compared, ")
