"""What is on record about a run: its assessment and its diagnosis, and which file is the one to show."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import torch
from torch import Tensor

from soar.data import Split
from soar.errors import UserError
from soar.evaluation import Assessment
from soar.evaluation.diagnosis import Diagnosis
from soar.threat import Threat
from soar.weights import Weights

# A copy of a model in another layout rounds differently, which may turn an image on the boundary. Other
# weights disagree about many more.
DISAGREEMENT = 0.01
_OTHER_WEIGHTS = "it was made of other weights"

Say = Callable[[str], None]
Record = TypeVar("Record", Assessment, Diagnosis)


def find_assessment(
    folder: Path,
    data: str,
    threat: Threat,
    weights: Weights,
    say: Say,
    is_of_model: Callable[[Assessment], bool],
) -> Assessment | None:
    """Find the assessment with the most examples, then the most attacks, then the newest.

    Args:
        folder: the run folder
        data: what the assessment must be of, such as "cifar10 (test)"
        threat: what it must be of
        weights: what it must be of, if it says so
        say: takes a line about every file that is passed over, and about the one that is used
        is_of_model: whether predictions agree, for files that do not name their weights
    """
    usable = []
    for path, found in _usable(folder, "assessment", Assessment.load, data, threat, weights, say):
        if found.weights is not None or is_of_model(found):
            usable.append((len(found), len(found.attacks), path.stat().st_mtime_ns, path, found))
        else:
            say(f"{path}: passed over, {_OTHER_WEIGHTS}")
    if not usable:
        return None
    *_, path, found = max(usable, key=lambda one: one[:3])
    say(f"{path}: used, {len(found)} images, {len(found.attacks)} attacks")
    return found


def find_diagnosis(folder: Path, data: str, threat: Threat, weights: Weights, say: Say) -> Diagnosis | None:
    """Find the newest diagnosis for which all checks were made, else the newest.

    Args:
        folder: the run folder
        data: what the diagnosis must be of
        threat: what it must be of
        weights: what it must be of, if it says so
        say: takes a line about every file that is passed over
    """
    usable = [
        (found.is_complete, path.stat().st_mtime_ns, found)
        for path, found in _usable(folder, "diagnosis", Diagnosis.load, data, threat, weights, say)
    ]
    return max(usable, key=lambda one: one[:2])[2] if usable else None


def agrees(found: Assessment, split: Split, correct: Tensor) -> bool:
    """Return whether an assessment and a model say the same of clean images, as far as both know them.

    Args:
        found: the assessment
        split: examples that were put before the model
        correct: which of them it classifies correctly
    """
    known = dict(zip(split.indices.tolist(), correct.tolist(), strict=True))
    pairs = zip(found.index.tolist(), found.correct.tolist(), strict=True)
    same = torch.tensor([known[index] == flag for index, flag in pairs if index in known])
    return int((~same.bool()).sum()) <= max(1, DISAGREEMENT * len(same))


def _usable(
    folder: Path,
    name: str,
    load: Callable[[Path], Record],
    data: str,
    threat: Threat,
    weights: Weights,
    say: Say,
) -> Iterator[tuple[Path, Record]]:
    for path in sorted(folder.glob(f"{name}*.json")):
        try:
            found = load(path)
        except UserError as error:
            say(f"passed over: {error}")
            continue
        if found.weights is not None and found.weights.sha256 != weights.sha256:
            say(f"{path}: passed over, {_OTHER_WEIGHTS}")
        elif (found.data, found.threat) == (data, threat):
            yield path, found
        else:
            say(f"{path}: passed over, it is of {found.data}, {found.threat}; the run's is {data}, {threat}")
