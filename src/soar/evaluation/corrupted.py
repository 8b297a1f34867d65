"""Measure accuracy under common corruptions, made here or read from the files of CIFAR-10-C."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from soar import values
from soar.data.corruptions import CORRUPTIONS, SEVERITIES, corrupt
from soar.data.corruptions.constants import constants_for
from soar.data.corruptions.files import CorruptedFiles
from soar.distributed import current
from soar.errors import printable
from soar.evaluation.assessment import Assessment
from soar.evaluation.compare import rows_in_common
from soar.evaluation.corruptions import CorruptionResult, Corruptions, stack_corruptions
from soar.evaluation.interval import share_of
from soar.evaluation.target import Target
from soar.progress import Mode, Progress
from soar.text import percent


@dataclass(frozen=True)
class Source:
    """Where corrupted images come from.

    Args:
        name: the source in words
        images: returns all images of a target under a corruption at a severity
    """

    name: str
    images: Callable[[Target, str, int], Tensor]


def open_source(wanted: bool | str | Path, target: Target) -> Source | None:
    """Return where corrupted images come from, and find out at once if they cannot be used.

    Args:
        wanted: False for no corruptions, True for those made of the images, else a folder of CIFAR-10-C
        target: the examples

    Raises:
        UserError: if the files are not there, are of other images, or corruptions are not defined for these
    """
    if wanted is False:
        return None
    if wanted is True:
        height, width = target.stored.shape[-2:]
        source = Source(
            f"made by soar with the constants of {constants_for(height, width).name}; frost is drawn",
            lambda part, name, severity: corrupt(
                part.images, name, severity, index=part.index, seed=part.seed
            ),
        )
    else:
        files = CorruptedFiles(values.place(wanted, "corruptions"))
        source = Source(
            printable(f"files of {files.folder}"),
            lambda part, name, severity: files.images(name, severity, part.index, part.labels),
        )
    source.images(target.subset(slice(1)), CORRUPTIONS[0], 1)
    return source


def with_corruptions(
    found: tuple[Assessment, ...], target: Target, source: Source | None
) -> tuple[Assessment, ...]:
    """Add accuracy under common corruptions to assessments of the same examples.

    Args:
        found: what attacks have found, at one or several radii
        target: what was attacked; an assessment may hold some of its examples only
        source: where the corrupted images come from; without one nothing is added
    """
    if source is None:
        return found
    rows = rows_in_common(found[0].index, target.index)[1]
    measured = measure(target.subset(rows), source)
    return tuple(replace(one, corruptions=measured) for one in found)


def measure(target: Target, source: Source) -> Corruptions:
    """Classify every example under every corruption at every severity, each process its part of them.

    Args:
        target: the model and its examples
        source: where the corrupted images come from
    """
    world = current()
    part = target.subset(world.shard(len(target)))
    mode: Mode = target.progress if world.is_main else "quiet"
    pieces = [part.subset(rows) for rows in torch.arange(len(part), device="cpu").split(part.at_once)]
    results = []
    with Progress(len(CORRUPTIONS) * len(SEVERITIES), "corruptions", mode, unit="sets") as bar:
        for name in CORRUPTIONS:
            for severity in SEVERITIES:
                correct = torch.zeros(0, dtype=torch.bool, device="cpu")
                if len(part):
                    correct = torch.cat([_correct(one, source, name, severity) for one in pieces])
                    bar.advance(1, at=f"{name} {severity}", accuracy=percent(share_of(correct)))
                results.append(CorruptionResult(name=name, severity=severity, correct=correct))
    found = stack_corruptions(world.gather(Corruptions(source=source.name, results=tuple(results))))
    assert found is not None
    return found


def _correct(target: Target, source: Source, name: str, severity: int) -> Tensor:
    logits = target.predict(source.images(target, name, severity))
    return logits.argmax(dim=1).cpu() == target.labels.cpu()
