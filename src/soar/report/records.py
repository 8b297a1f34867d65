"""Which files on record about a run to show: its assessment and its diagnosis."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from soar.errors import UserError
from soar.evaluation import Assessment
from soar.evaluation.diagnosis import Diagnosis
from soar.evaluation.target import Target

Say = Callable[[str], None]
Record = TypeVar("Record", Assessment, Diagnosis)


def find_assessment(folder: Path, target: Target, say: Say) -> Assessment | None:
    """Return the assessment with the most examples, then the most attacks, then the newest.

    Args:
        folder: the run folder
        target: the weights, data and threat that it must be of
        say: takes a line about every file that is skipped, and about the one that is used
    """
    usable = [
        (len(found), len(found.attacks), path.stat().st_mtime_ns, path, found)
        for path, found in _usable(folder, "assessment", Assessment.load, target, say)
    ]
    if not usable:
        return None
    *_, path, found = max(usable, key=lambda one: one[:3])
    say(f"{path}: used, {len(found)} images, {len(found.attacks)} attacks")
    return found


def find_diagnosis(folder: Path, target: Target, say: Say) -> Diagnosis | None:
    """Return the newest diagnosis for which all checks were made, else the newest.

    Args:
        folder: the run folder
        target: the weights, data and threat that it must be of
        say: takes a line about every file that is skipped
    """
    usable = [
        (found.is_complete, path.stat().st_mtime_ns, found)
        for path, found in _usable(folder, "diagnosis", Diagnosis.load, target, say)
    ]
    return max(usable, key=lambda one: one[:2])[2] if usable else None


def _usable(
    folder: Path, name: str, load: Callable[[Path], Record], target: Target, say: Say
) -> Iterator[tuple[Path, Record]]:
    digest = None if target.weights is None else target.weights.sha256
    for path in sorted(folder.glob(f"{name}*.json")):
        try:
            found = load(path)
        except UserError as error:
            say(f"skipped: {error}")
            continue
        if (None if found.weights is None else found.weights.sha256) != digest:
            say(f"{path}: skipped, it was made of other weights")
        elif (found.data, found.threat) == (target.data_name, target.threat):
            yield path, found
        else:
            own = f"{target.data_name}, {target.threat}"
            say(f"{path}: skipped, it is of {found.data}, {found.threat}; the run's is {own}")
