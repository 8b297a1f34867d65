"""Points found on a source network, stored so that every other network of a table is shown the same."""

from __future__ import annotations

from pathlib import Path

import safetensors
import torch
from safetensors.torch import load_file, save
from torch import Tensor

from soar import files
from soar.attacks.transfer import survives, transfer_points
from soar.experiments.measure.accuracy import attack_of
from soar.experiments.measure.task import BATCH, Found, Task, share


def points(task: Task) -> Found:
    """Attack a source to the end of the budget, store the points, and return its own accuracy there.

    Every batch is stored when it is done, so an interrupted attack is resumed with the next one.
    """
    return share(survives(task.target.model, _found(task), task.target.labels))


def transfer(task: Task) -> Found:
    """Return the accuracy at points found on a source.

    An image counts as correct where the network is correct at its point, as in the paper, whatever it
    predicts for the clean image.
    """
    return share(survives(task.target.model, _found(task.of_source()), task.target.labels))


def _found(task: Task) -> Tensor:
    """Return the points of a source; those that are not stored yet are found first."""
    attack, folder = attack_of(task.options), task.cache.folder / "points" / task.key
    parts, total = [], len(task.target)
    for first in range(0, total, BATCH):
        file = folder / f"{first:06}.safetensors"
        part = _read(file, min(BATCH, total - first))
        if part is None:
            batch = task.target.subset(slice(first, first + BATCH))
            part = transfer_points(
                batch.model,
                attack,
                batch.threat,
                batch.images,
                batch.labels,
                index=batch.index,
                seed=task.seed,
                batch_size=BATCH,
            )
            files.write(file, save({"points": part.contiguous()}))
            task.log(f"{attack.label}: {first + len(part)} of {total} images")
        parts.append(part)
    return torch.cat(parts)


def _read(file: Path, count: int) -> Tensor | None:
    """Return the points of a file; None where there is none that is whole."""
    try:
        found = load_file(file)["points"]
    except (OSError, KeyError, safetensors.SafetensorError):
        return None
    return found if len(found) == count else None
