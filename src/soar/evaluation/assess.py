"""Run attacks on examples and put together what they did: the part of an evaluation that checks use, too."""

from __future__ import annotations

import warnings
from contextlib import nullcontext
from pathlib import Path

from torch import nn

from soar.distributed import current
from soar.environment import environment
from soar.evaluation.assessment import Assessment
from soar.evaluation.attack_result import describe
from soar.evaluation.examples import Gathered
from soar.evaluation.inspection import SpareOutputsWarning, spare_outputs
from soar.evaluation.joining import join
from soar.evaluation.journal import Journal, fingerprint
from soar.evaluation.suites import Plan
from soar.evaluation.work import Work
from soar.progress import Mode
from soar.threat import Threat
from soar.weights import Weights


def assess(
    model: nn.Module,
    examples: Gathered,
    threat: Threat,
    plan: Plan,
    *,
    seed: int = 0,
    batch_size: int = 128,
    name: str = "model",
    data_name: str = "data",
    progress: Mode = "quiet",
    journal: Path | None = None,
    fast: bool = True,
    class_names: tuple[str, ...] = (),
    weights: Weights | None = None,
) -> Assessment:
    """Run every attack of a plan, sharing the examples over processes, and return the whole assessment.

    Arguments are those of `evaluate`, which checks them.

    Raises:
        UserError: if the model's answers make no sense
    """
    images, labels, index = examples.images, examples.labels, examples.index
    world = current()
    mine = world.shard(len(labels))
    description = f"{[describe(one) for one in plan]} {threat} {seed} {data_name}"
    record = (
        nullcontext(None)
        if journal is None
        else Journal(journal, fingerprint(model, description, images, labels), world.rank)
    )
    with record as notes:
        work = Work(model, images[mine], labels[mine], index[mine], threat, seed, batch_size, notes)
        work.look(fast=fast)
        spare = spare_outputs(work.logits.shape[1], labels, class_names) if len(work.logits) else None
        if spare is not None:
            work.notes = (*work.notes, spare)
            if world.is_main:
                # The line that the user wrote is the one that called `evaluate`.
                warnings.warn(str(spare), SpareOutputsWarning, stacklevel=3)
        mode: Mode = progress if world.is_main else "quiet"
        results = tuple(work.attack(one, mode) for one in plan)
    part = Assessment(
        model=name,
        data=data_name,
        threat=threat,
        seed=seed,
        index=work.index.cpu(),
        labels=work.labels.cpu(),
        correct=work.correct,
        attacks=results,
        notes=work.notes,
        environment=environment(),
        predicted=work.predicted,
        classes=class_names,
        weights=weights,
    )
    return join(world.gather(part))
