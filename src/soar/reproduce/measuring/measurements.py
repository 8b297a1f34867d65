"""Measure one number of a table."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from soar.errors import unknown
from soar.evaluation.files import bits
from soar.evaluation.journal import remove_journals
from soar.reproduce.measuring.attacks import accuracy, clean, journal_of
from soar.reproduce.measuring.confidence import confidence
from soar.reproduce.measuring.cost import cost
from soar.reproduce.measuring.relaxation import relaxation
from soar.reproduce.measuring.samples import samples
from soar.reproduce.measuring.subject import Found, Subject
from soar.reproduce.measuring.theory import theory
from soar.reproduce.measuring.transfer import points, transfer
from soar.reproduce.planning.wanted import validation_score

KINDS: dict[str, Callable[[Subject], Found]] = {
    "clean": clean,
    "accuracy": accuracy,
    "points": points,
    "transfer": transfer,
    "confidence": confidence,
    "relaxation": relaxation,
    "samples": samples,
    "cost": cost,
    "theory": theory,
}


def measure(payload: Mapping[str, Any], say: Callable[[str], None] = lambda _: None) -> dict[str, Any]:
    """Do a measurement; one that was interrupted goes on where attacks have left a journal.

    Args:
        payload: of a "measure" job: network, measurement, examples, seed, sources, cache, root and device,
            and `given` for a network with weights of a user's own
        say: takes lines of progress

    Returns:
        The value in the table's unit, its interval, which examples are right where it is an accuracy, the
        number of each example where it is a mean, mean passes an example, seconds, and details.

    Raises:
        UserError: if a network or its data are not there
    """
    kind = payload["measurement"]["kind"]
    if kind not in KINDS:
        raise unknown("measurement", kind, KINDS, "kind")
    began = time.monotonic()
    subject = Subject(payload, say)
    found = KINDS[kind](subject)
    details = dict(found.details)
    if payload["network"] and "given" not in payload:
        # A sweep is selected by this; the paper selected on the test set.
        details["validation"] = validation_score(subject.cache.network(payload["network"]))
    return {
        "value": found.value,
        "low": found.low,
        "high": found.high,
        "right": None if found.right is None else bits(found.right),
        "each": None if found.each is None else [float(f"{one:.7g}") for one in found.each.tolist()],
        "forward": found.forward,
        "backward": found.backward,
        "seconds": round(time.monotonic() - began, 3),
        "details": details,
    }


def tidy(payload: Mapping[str, Any]) -> None:
    """Remove the journal of a measurement, once its result is stored.

    Args:
        payload: of the job
    """
    remove_journals(journal_of(Subject(payload, lambda _: None)))
