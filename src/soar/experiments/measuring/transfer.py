"""Points found on a source network, kept so that every other network of a table is shown the same."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import safetensors
import torch
from safetensors.torch import load_file, save
from torch import Tensor

from soar import files
from soar.attacks.transfer import survives, transfer_points
from soar.experiments.measuring.attacks import attack_of
from soar.experiments.measuring.subject import BATCH, Found, Subject, share


def points(subject: Subject) -> Found:
    """Attack a source to the end of the budget, keep the points, and give its own accuracy there.

    Every batch is stored when it is done, so an attack that was interrupted goes on with the next.

    Args:
        subject: the source, images and attack
    """
    attack, folder = attack_of(subject.options), _folder(subject, subject.key)
    split, parts = subject.split, []
    for first in range(0, len(split), BATCH):
        file = folder / f"{first:06}.safetensors"
        part = _read(file, min(BATCH, len(split) - first))
        if part is None:
            rows = slice(first, first + BATCH)
            part = transfer_points(
                subject.model,
                attack,
                subject.threat,
                split.images[rows],
                split.labels[rows],
                index=split.indices[rows],
                seed=subject.seed,
                batch_size=BATCH,
            )
            _write(part, file)
            subject.say(f"{attack.label}: {first + len(part)} of {len(split)} images")
        parts.append(part)
    right = survives(subject.model, torch.cat(parts), split.labels)
    passes = subject.options["steps"]
    return share(right, forward=passes, backward=passes, attack=attack.label)


def transfer(subject: Subject) -> Found:
    """Give the accuracy at points that were found on a source; they are found first where they are not there.

    An image counts as right where the network is right at its point, as in the paper, whatever it says about
    the clean image.

    Args:
        subject: network, images, attack and source
    """
    (source,) = subject.payload["sources"].values()
    asked = Subject(_of_source(subject.payload, source), subject.say)
    points(asked)
    files = sorted(_folder(subject, asked.key).glob("*.safetensors"))
    shown = torch.cat([load_file(file)["points"] for file in files])
    right = survives(subject.model, shown, subject.split.labels)
    return share(right, attack=attack_of(subject.options).label, source=source)


def _of_source(payload: Mapping[str, Any], source: str) -> dict[str, Any]:
    """Give the payload of the job that finds the points."""
    options = payload["measurement"]["options"]
    changed = {"network": source, "sources": {}, "measurement": {"kind": "points", "options": options}}
    return {key: value for key, value in payload.items() if key != "given"} | changed


def _folder(subject: Subject, key: str) -> Path:
    return subject.cache.folder / "points" / key


def _read(file: Path, count: int) -> Tensor | None:
    """Give the points of a file; None where there is none that is whole."""
    try:
        found = load_file(file)["points"]
    except (OSError, KeyError, safetensors.SafetensorError):
        return None
    return found if len(found) == count else None


def _write(part: Tensor, file: Path) -> None:
    """Store points, whole or not at all."""
    files.write(file, save({"points": part.contiguous()}))
