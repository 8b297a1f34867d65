"""Which files on record about a model to show: its assessments, certificates and diagnosis."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from soar.errors import UserError
from soar.evaluation.assessment import Assessment
from soar.evaluation.certificate import Certificate
from soar.evaluation.diagnosis import Diagnosis
from soar.evaluation.target import Target
from soar.threat import Threat

Say = Callable[[str], None]
Record = TypeVar("Record", Assessment, Certificate, Diagnosis)


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


def find_assessments(folder: Path, target: Target) -> list[Assessment]:
    """Return all assessments of a target's weights and data at any radius of its norm."""
    found = _usable(folder, "assessment", Assessment.load, target, lambda _: None, any_radius=True)
    return [one for _, one in found]


def find_certificates(folder: Path, target: Target, say: Say = lambda _: None) -> list[Certificate]:
    """Return one certificate of the model itself for each radius, the smallest first.

    That with the most examples, then the most certified ones, then the newest.

    Args:
        folder: the run folder
        target: the weights, data and norm that they must be of
        say: takes a line about every file that is skipped
    """
    best: dict[Threat, tuple[int, int, int, Certificate]] = {}
    for path, found in _usable(folder, "certificate", Certificate.load, target, say, any_radius=True):
        if found.is_smoothed:
            say(f"{path}: skipped, it is about the smoothed model")
            continue
        one = (len(found), int(found.certified.sum()), path.stat().st_mtime_ns, found)
        if found.threat not in best or one[:3] > best[found.threat][:3]:
            best[found.threat] = one
    return [best[threat][3] for threat in sorted(best, key=lambda one: one.eps)]


def _usable(
    folder: Path,
    name: str,
    load: Callable[[Path], Record],
    target: Target,
    say: Say,
    *,
    any_radius: bool = False,
) -> Iterator[tuple[Path, Record]]:
    digest = None if target.weights is None else target.weights.sha256
    for path in sorted(folder.glob(f"{name}*.json")):
        try:
            found = load(path)
        except UserError as error:
            say(f"skipped: {error}")
            continue
        fits = found.threat == target.threat
        if any_radius:
            fits = found.threat.norm_name == target.threat.norm_name
        if (None if found.weights is None else found.weights.sha256) != digest:
            say(f"{path}: skipped, it was made of other weights")
        elif found.data == target.data_name and fits:
            yield path, found
        else:
            own = f"{target.data_name}, {target.threat}"
            say(f"{path}: skipped, it is of {found.data}, {found.threat}; the run's is {own}")
