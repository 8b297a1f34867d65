"""Evaluate as many examples as a given time allows."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from pathlib import Path

import torch

from soar import randomness
from soar.distributed import current
from soar.errors import UserError, shown
from soar.evaluation.assess import open_journal
from soar.evaluation.assessment import Assessment
from soar.evaluation.compare import join
from soar.evaluation.first_look import first_look
from soar.evaluation.protocol import evaluate_target
from soar.evaluation.suites import Wanted, resolve
from soar.evaluation.target import Target
from soar.text import duration

_UNITS = {"s": 1, "m": 60, "h": 3600}
# The first part shows how long an example takes; smaller ones would leave the batch half empty.
_FIRST = 64


def parse_duration(text: str | float) -> float:
    """Return seconds, of a number or a text such as "90s", "10m" or "1.5h".

    Raises:
        UserError: if it is not a time above 0

    >>> parse_duration("10m"), parse_duration(30)
    (600.0, 30.0)
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", str(text).strip())
    seconds = float(match[1]) * _UNITS[match[2] or "s"] if match else 0.0
    if seconds <= 0:
        raise UserError(f"budget: got {shown(text)}, expected a time such as 90s, 10m or 1h (flag --budget)")
    return seconds


def evaluate_within(
    target: Target,
    budget: str | float,
    attacks: Wanted = "auto",
    *,
    journal: Path | None = None,
    fast: bool = True,
    check: bool = True,
) -> Assessment:
    """Attack examples drawn at random until the time is over, and assess those that were attacked.

    Misclassified images cost one prediction, so nearly all of the time goes into the others. The first part
    of the examples decides which attacks a suite like `auto` runs on the others; each further part takes
    about half of the time that is left, so a slow one does not overrun it by much.

    Args:
        target: the model, its examples and the threat
        budget: seconds, or a text such as "10m"
        attacks: a suite such as "auto" or "standard", an attack, or a list of them
        journal: a file for what is found on the way; a second call goes on from it, with the whole time again
        fast: attack a faster copy of the model
        check: add a first look at gradient masking

    Raises:
        UserError: if the time makes no sense
    """
    seconds, plan = parse_duration(budget), resolve(attacks, target.threat.norm_name)
    began = time.monotonic()
    notes = None if journal is None else open_journal(target, plan, journal)
    order = randomness.permutation(
        randomness.key(target.seed, torch.tensor([0], device="cpu"), "budget"), len(target)
    )[0]
    parts: list[Assessment] = []
    done, count = 0, min(_FIRST, len(target))
    while count:
        rows = order[done : done + count].sort().values
        part = evaluate_target(target.subset(rows), plan, journal=notes, fast=fast, check=False)
        if not parts:
            # Attacks for different conditions may share a label.
            run = {(one.label, one.samples) for one in part.attacks}
            chosen = [one for one in plan if (one.attack.label, one.samples) in run]
            plan = [replace(one, condition="always") for one in chosen]
        parts.append(part)
        done += count
        spent = current().from_main(time.monotonic() - began)
        able = int((seconds - spent) / 2 / (spent / done))
        # A last part too small to fill a batch is not worth its start.
        count = min(able, len(order) - done) if able >= min(_FIRST // 2, len(order) - done) else 0
    found = join(parts)
    protocol = f"{len(found)} of {len(target)} images, drawn at random, within {duration(seconds)}"
    found = replace(found, protocol="; ".join(filter(None, [protocol, parts[0].protocol])))
    return replace(found, diagnosis=first_look(target, found)) if check else found
