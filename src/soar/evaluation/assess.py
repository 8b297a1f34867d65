"""Run attacks on a target: each process attacks its part of the examples, and the parts are joined."""

from __future__ import annotations

import time
from collections.abc import Callable
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

_SAMPLE = 4


FollowUp = Callable[[Assessment], Plan]


def assess(
    target: Target,
    plan: Plan,
    *,
    journal: Journal | Path | None = None,
    fast: bool = True,
    follow_up: FollowUp | None = None,
    spared: Tensor | None = None,
) -> Assessment:
    """Run every attack of a plan and return the outcomes, those of all processes.

    Args:
        target: the model, its examples and the threat
        plan: the attacks in their order
        journal: a file for what is found on the way; a second call with the same arguments goes on from it
        fast: attack a faster copy of the model
        follow_up: takes what the plan has found, and returns the attacks that follow; called in rank 0 only
        spared: which examples need no attack, since they are known to be robust

    Raises:
        UserError: if the model's outputs cannot be evaluated
    """
    world = current()
    if isinstance(journal, Path):
        journal = open_journal(target, plan, journal)
    mode: Mode = target.progress if world.is_main else "quiet"
    rows = world.shard(len(target))
    part = replace(target.subset(rows), progress=mode)
    shard = Shard(part, journal, fast=fast, spared=None if spared is None else spared[rows])
    spare = spare_outputs(part.logits.shape[1], target.labels, target.class_names) if len(part) else None
    found = Assessment(
        model=target.name,
        data=target.data_name,
        threat=target.threat,
        seed=target.seed,
        index=part.index.cpu(),
        labels=part.labels.cpu(),
        correct=part.correct,
        attacks=tuple(shard.attack(one) for one in plan),
        notes=shard.notes if spare is None else (*shard.notes, spare),
        environment=environment(),
        clean_predictions=part.predictions,
        classes=target.class_names,
        weights=target.weights,
    )
    whole = join(world.gather(found))
    if follow_up is None:
        return whole
    further = tuple(shard.attack(one) for one in world.on_main(lambda: follow_up(whole)))
    return join(world.gather(replace(found, attacks=found.attacks + further))) if further else whole


def open_journal(target: Target, plan: Plan, path: Path) -> Journal:
    """Open the journal of a plan, with what an earlier call has left there for the same target.

    Args:
        target: the model, its examples and the threat
        plan: the attacks
        path: where to write
    """
    description = f"{[describe(one) for one in plan]} {target.threat} {target.seed} {target.data_name}"
    return Journal(path, fingerprint(target.model, description, target.stored, target.labels), current().rank)


class Shard:
    """The examples that one process attacks, and what is known about them so far.

    Args:
        target: the model and this process's part of the examples
        journal: where outcomes are noted and found again
        fast: attack a faster copy of the model; what fools the copy must fool the model itself
        spared: which examples need no attack

    Raises:
        UserError: if the model's outputs cannot be evaluated
    """

    def __init__(
        self, target: Target, journal: Journal | None, *, fast: bool, spared: Tensor | None = None
    ) -> None:
        self.target, self.journal = target, journal
        self.robust = target.correct.clone()
        self.predictions = target.predictions.clone()
        self.notes = inspect(target)
        self.exposed = torch.ones_like(self.robust) if spared is None else ~spared.cpu()
        self.copy = target.model
        if fast and len(target):
            self.copy = inference_copy(target.model, target.x[:_SAMPLE])

    def attack(self, planned: Planned) -> AttackResult:
        """Run one attack on the examples that the journal does not know yet."""
        attack, target = planned.attack, self.target
        known = self.journal.known.get(attack.label, {}) if self.journal else {}
        is_known = torch.tensor([int(i) in known for i in target.index], dtype=torch.bool, device="cpu")
        robust = (self.robust if planned.survivors_only else target.correct).clone()
        attacked = robust & self.exposed
        rows = (attacked & ~is_known).nonzero()[:, 0]
        total = int(attacked.sum())
        forward, backward = (torch.zeros_like(target.predictions) for _ in range(2))
        # An example that is not attacked keeps its prediction under the attacks so far.
        predictions = torch.where(robust, target.predictions, self.predictions)
        for row in (attacked & is_known).nonzero()[:, 0].tolist():
            robust[row], forward[row], backward[row], predictions[row] = known[int(target.index[row])]
        began = time.monotonic()
        with Progress(total, attack.label, target.progress, done=total - len(rows)) as bar:
            for part in rows.split(target.at_once):
                outcomes = self._run(planned, part, bar, of=len(rows), left=int(robust.sum()))
                robust[part], predictions[part] = outcomes.robust.cpu(), outcomes.predictions.cpu()
                forward[part], backward[part] = outcomes.forward.cpu(), outcomes.backward.cpu()
                del outcomes  # with its images, before the next ones are read
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

        # The next output of a randomized model need not agree with one that was fooled.
        is_random = any(note.kind in ("random", "state") for note in self.notes)
        return self.target.attack(
            planned.attack,
            rows=rows,
            copy=self.copy,
            confirm=self.copy is not self.target.model and not is_random,
            samples=planned.samples,
            listener=listen,
        )
