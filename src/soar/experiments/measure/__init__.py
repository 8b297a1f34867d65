"""How each number of a table is measured."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from soar.errors import unknown
from soar.evaluation.files import bits
from soar.experiments.cache import Log
from soar.experiments.measure.accuracy import accuracy, assessment, clean
from soar.experiments.measure.cost import cost, theory
from soar.experiments.measure.regularization import confidence, relaxation, samples
from soar.experiments.measure.task import Found, Task
from soar.experiments.measure.transfer import points, transfer

KINDS: dict[str, Callable[[Task], Found]] = {
    "clean": clean,
    "accuracy": accuracy,
    "assessment": assessment,
    "points": points,
    "transfer": transfer,
    "confidence": confidence,
    "relaxation": relaxation,
    "samples": samples,
    "cost": cost,
    "theory": theory,
}


def measure(payload: Mapping[str, Any], log: Log = lambda _: None) -> dict[str, Any]:
    """Do a measurement; one that was interrupted is resumed where attacks have left a journal.

    Args:
        payload: of a "measure" job: network, measurement, examples, seed, sources, cache, root and device,
            and `given` for a network with weights of a user's own
        log: takes lines of progress

    Returns:
        The value in the table's unit, its interval, which examples are correctly classified where it is an
        accuracy, the number of each example where it is a mean, and seconds.

    Raises:
        UserError: if a network or its data are not there
    """
    kind = payload["measurement"]["kind"]
    if kind not in KINDS:
        raise unknown("measurement", kind, KINDS, "kind")
    began = time.monotonic()
    found = KINDS[kind](Task(payload, log))
    return {
        **_plain(found),
        "seconds": round(time.monotonic() - began, 3),
        "parts": {name: _plain(part) for name, part in found.parts.items()},
    }


def _plain(found: Found) -> dict[str, Any]:
    return {
        "value": found.value,
        "low": found.low,
        "high": found.high,
        "correct": None if found.correct is None else bits(found.correct),
        "each": None if found.each is None else [float(f"{one:.7g}") for one in found.each.tolist()],
    }
