"""Run attacks on a target: each process attacks its part of the examples, and the parts are joined."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from soar.attacks import AttackProgress, Outcomes
from soar.attacks.attack import Planned
from soar.distributed import current
from soar.environment import environment
from soar.evaluation.assessment import Assessment, AttackResult
from soar.evaluation.compare import join
from soar.evaluation.inspection import inspect, spare_outputs
from soar.evaluation.journal import Journal, fingerprint
from soar.evaluation.suites import Plan, describe
from soar.evaluation.target import Target
from soar.fuse import inference_copy
from soar.progress import Mode, Progress
from soar.text import percent

# The engine holds what it attacks as floats, so it is given so many batches at a time, however long the data.
_BATCHES_AT_ONCE = 16
_SAMPLE = 4


def assess(target: Target, plan: Plan, *, journal: Path | None = None, fast: bool = True) -> Assessment:
    """Run every attack of a plan and return the outcomes, those of all processes.

    Args:
        target: the model, its examples and the threat
        plan: the attacks in their order
        journal: a file for what is found on the way; a second call with the same arguments goes on from it
        fast: attack a faster copy of the model

    Raises:
        UserError: if the model's outputs cannot be evaluated
    """
    world = current()
    description = f"{[describe(one) for one in plan]} {target.threat} {target.seed} {target.data_name}"
    known = None
    if journal is not None:
        owner = fingerprint(target.model, description, target.images, target.labels)
        known = Journal(journal, owner, world.rank)
    mode: Mode = target.progress if world.is_main else "quiet"
    part = replace(target.subset(world.shard(len(target))), progress=mode)
    shard = Shard(part, known, fast=fast)
    outputs = shard.target.logits.shape[1]
    spare = spare_outputs(outputs, target.labels, target.class_names) if len(part) else None
    results = tuple(shard.attack(one) for one in plan)
    found = Assessment(
        model=target.name,
        data=target.data_name,
        threat=target.threat,
        seed=target.seed,
        index=part.index.cpu(),
        labels=part.labels.cpu(),
        correct=shard.target.correct,
        attacks=results,
        notes=shard.notes if spare is None else (*shard.notes, spare),
        environment=environment(),
        clean_predictions=shard.target.predictions,
        classes=target.class_names,
        weights=target.weights,
    )
    return join(world.gather(found))


class Shard:
    """The examples that one process attacks, and what is known about them so far.

    Args:
        target: the model and this process's part of the examples
        journal: where outcomes are noted and found again
        fast: attack a faster copy of the model

    Raises:
        UserError: if the model's outputs cannot be evaluated
    """

    def __init__(self, target: Target, journal: Journal | None, *, fast: bool) -> None:
        if fast and len(target):
            sample = target.subset(slice(_SAMPLE))
            target.predict(sample.images)  # fails with a clear message if the model takes no images
            target = replace(target, model=inference_copy(target.model, sample.x))
        self.target, self.journal = target, journal
        self.notes = inspect(target)
        self.robust = target.correct.clone()
        self.predictions = target.predictions.clone()

    def attack(self, planned: Planned) -> AttackResult:
        """Run one attack on the examples that the journal does not know yet."""
        attack, target = planned.attack, self.target
        known = self.journal.known.get(attack.label, {}) if self.journal else {}
        is_known = torch.tensor([int(i) in known for i in target.index], dtype=torch.bool)
        attacked = self.robust if planned.survivors_only else target.correct
        rows = (attacked & ~is_known).nonzero()[:, 0]
        total = int(attacked.sum())
        robust, forward, backward = (
            attacked.clone(),
            *(torch.zeros_like(target.predictions) for _ in range(2)),
        )
        # An example that is not attacked keeps its prediction under the attacks so far.
        predictions = torch.where(attacked, target.predictions, self.predictions)
        for row in (attacked & is_known).nonzero()[:, 0].tolist():
            robust[row], forward[row], backward[row], predictions[row] = known[int(target.index[row])]
        began = time.monotonic()
        with Progress(total, attack.label, target.progress, done=total - len(rows)) as bar:
            for part in rows.split(_BATCHES_AT_ONCE * target.batch_size):
                outcomes = self._run(planned, part, bar, of=len(rows), left=int(robust.sum()))
                robust[part], predictions[part] = outcomes.robust.cpu(), outcomes.predictions.cpu()
                forward[part], backward[part] = outcomes.forward.cpu(), outcomes.backward.cpu()
        self.predictions = torch.where(self.robust, predictions, self.predictions)
        self.robust = self.robust & robust
        return AttackResult(
            label=attack.label,
            **describe(planned),
            robust=robust,
            forward=planned.samples * forward,
            backward=planned.samples * backward,
            seconds=round(time.monotonic() - began, 3),
            predictions=predictions,
        )

    def _run(self, planned: Planned, rows: Tensor, bar: Progress, *, of: int, left: int) -> Outcomes:
        """Attack some rows, of so many in all; so many of all the attacked are not fooled so far."""
        index, behind = self.target.index[rows], bar.done - bar.first

        def listen(progress: AttackProgress, outcomes: Outcomes) -> None:
            if self.journal is not None and progress.settled:
                self.journal.write(planned.attack.label, index, progress.settled, outcomes)
            bar.expect((behind + progress.share * len(rows)) / of)
            # Fooled examples are settled first, so the share among the settled ones would start far too low.
            most = percent((left - progress.done + progress.robust) / len(self.target))
            is_last = bar.done + len(progress.settled) == bar.total
            bar.advance(len(progress.settled), robust=most if is_last else f"at most {most}")

        return self.target.attack(planned.attack, rows=rows, samples=planned.samples, listener=listen)
