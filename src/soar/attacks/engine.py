"""The only loop over attacks: a batch that is always full of examples still worth attacking.

An example that is fooled, or whose budget is spent, leaves at once and the next one takes its place, as
inference servers do it (continuous batching). The engine does not trust attacks: it projects every point
they ask for, evaluates it itself, and counts a success only where that very point is inside the threat set.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

import torch
from torch import Tensor, nn

from soar import values
from soar.attacks.attack import Attack, Examples, Spends, State, join, require_attack, select, size
from soar.attacks.forecast import Forecast
from soar.attacks.oracle import ask, is_fooled, precise
from soar.attacks.queue import Job, Queue, columns
from soar.attacks.record import Outcomes, Record
from soar.errors import UserError
from soar.inputs import check_batch_size, check_images, check_numbers
from soar.model_state import placement, probing, require_module
from soar.prediction import as_input, knowing, predict
from soar.threat import Threat, require_threat

S = TypeVar("S", bound=State)


@dataclass(frozen=True)
class Progress:
    """How far a run is; handed to the caller after every batch."""

    settled: list[int]
    """rows that were settled by this batch"""
    done: int
    total: int
    robust: int
    """how many of the settled examples stayed right"""
    share: float
    """the share of the work that is done, as far as can be told"""


Listener = Callable[[Progress, Outcomes], None]


def run(
    model: nn.Module,
    attack: Attack[S],
    threat: Threat,
    images: Tensor,
    labels: Tensor,
    *,
    index: Tensor | None = None,
    goal: Tensor | None = None,
    seed: int = 0,
    batch_size: int = 128,
    clean_logits: Tensor | None = None,
    progress: Listener | None = None,
) -> Outcomes:
    """Attack every correctly classified example, and return which ones stay correctly classified.

    What happens to an example depends on the model, the attack, the seed and the example's index, and
    neither on the batch size nor on the other examples. The model is used in eval mode and left as it was.

    Args:
        model: any module that maps images in [0, 1] to logits
        attack: the recipe to follow
        threat: what the adversary may do
        images: float in [0, 1], or uint8
        labels: true classes
        index: identity of each example; by default its position
        goal: classes to end in; an example is then fooled only where the model says exactly that
        seed: seed of all random numbers
        batch_size: how many examples are evaluated at once
        clean_logits: the model's answers at the images, if they are known already
        progress: called after every batch

    Raises:
        UserError: if images, labels and indices do not fit together or images are out of range
    """
    require_module(model)
    require_attack(attack)
    require_threat(threat)
    values.whole(seed, "seed")
    check_batch_size(batch_size)
    check_images(images, labels)
    for name, given in (("index", index), ("goal", goal)):
        if given is not None:
            check_numbers(given, len(labels), name)
    with probing(model), knowing(labels):
        session = _Session(model, attack, threat, batch_size)
        session.load(images, labels, index=index, goal=goal, seed=seed, clean_logits=clean_logits)
        session.attack_all(progress)
    return session.outcomes


class _Session(Generic[S]):
    """One run of one attack: the examples, the queue and the records."""

    def __init__(self, model: nn.Module, attack: Attack[S], threat: Threat, batch_size: int) -> None:
        self.model, self.attack, self.threat = model, attack, threat
        self.batch_size = batch_size
        self.device, self.dtype = placement(model)

    def load(
        self,
        images: Tensor,
        labels: Tensor,
        *,
        index: Tensor | None,
        goal: Tensor | None,
        seed: int,
        clean_logits: Tensor | None,
    ) -> None:
        """Take the examples and find out which of them are correctly classified.

        An attack that looks at the clean image first finds that out by itself, for nothing.
        """
        count = len(labels)
        self.told_by_first_query = clean_logits is None and goal is None and self.attack.starts_at_image
        logits, asked = clean_logits, 0
        if logits is None and not self.told_by_first_query:
            logits, asked = predict(self.model, images, self.batch_size), 1
        self._check_goal(goal, logits)
        labels = labels.to(self.device)
        self.all = Examples(
            x=as_input(images, self.device, self.dtype),
            labels=labels,
            goal=torch.full_like(labels, -1) if goal is None else goal.to(self.device),
            row=torch.arange(count, device=self.device),
            index=torch.arange(count, device=self.device) if index is None else index.to(self.device),
            entry=torch.zeros_like(labels),
            logits=None if logits is None else precise(logits.to(self.device)),
            seed=seed,
        )
        self.record = Record(self.all, asked)
        self.outcomes = self.record.outcomes

    def _check_goal(self, goal: Tensor | None, logits: Tensor | None) -> None:
        """Refuse a class that the model does not have, unless the attack climbs a loss without targets.

        Such an attack never reaches it, and so goes on to the end of its budget.
        """
        if goal is None or logits is None or not len(goal) or callable(getattr(self.attack, "loss", None)):
            return
        highest, classes = int(goal.max()), logits.shape[1]
        if highest >= classes:
            raise UserError(
                f"goal: got {highest}, expected 0 to {classes - 1} for {classes} classes, or -1 for none"
            )

    def attack_all(self, progress: Listener | None) -> None:
        """Keep the batch full until every example is settled.

        Examples that only need a last prediction are parked until there is a batch of them, so that no
        gradient is computed for them and the places they held are taken by others.
        """
        rows = self.outcomes.correct.nonzero()[:, 0].tolist()
        entries = self.attack.entries(self._classes())
        self.queue = Queue(rows, entries)
        self.forecast = Forecast(self.queue, self.attack.budget, entries)
        active: S | None = None
        parked: S | None = None
        done = robust = 0
        while True:
            active, parked = self._refill(active, parked)
            # An example about to get its last prediction may be settled by it: look before running ahead.
            if parked is not None and (_count(parked) >= self.batch_size or _count(active) < self.batch_size):
                batch, parked = _cut(parked, self.batch_size)
            else:
                active = self._add(active, self.queue.take_ahead(self.batch_size - _count(active)))
                if active is None:
                    return
                batch, active = _cut(active, self.batch_size)
            remaining, settled = self._evaluate(batch)
            active = _merge(active, remaining)
            if self.queue.has_cancelled():
                active, parked = self._drop_cancelled(active), self._drop_cancelled(parked)
            done += len(settled)
            robust += int(self.outcomes.robust[settled].sum())
            if progress is not None:
                share = self.forecast.share()
                progress(Progress(settled, done, len(rows), robust, share), self.outcomes)

    def _refill(self, active: S | None, parked: S | None) -> tuple[S | None, S | None]:
        """Let waiting examples take free places, those of examples that need no gradient included."""
        active = self._add(active, self.queue.take(self.batch_size - _count(active)))
        if active is None:
            return active, parked
        wanted = self.attack.wants_gradient(active)
        if bool(wanted.all()) or not bool(wanted.any()):
            return active, parked
        parked = _merge(parked, select(active, ~wanted))
        active = select(active, wanted)
        return self._add(active, self.queue.take(self.batch_size - _count(active))), parked

    def _add(self, state: S | None, jobs: list[Job]) -> S | None:
        """Start the attack on further jobs and put them behind the others."""
        if not jobs:
            return state
        rows, entries = columns(jobs, self.device)
        examples = replace(select(self.all, rows), entry=entries)
        started = self.attack.start(examples, self.threat)
        if isinstance(self.attack, Spends):
            self.record.spend(rows, *self.attack.spent(started))
        return _merge(state, started)

    def _evaluate(self, batch: S) -> tuple[S | None, list[int]]:
        """Ask the model, record what it says, and keep the examples that go on."""
        gradient = bool(self.attack.wants_gradient(batch).any())
        points, answer = ask(self.model, self.attack, batch, self.threat, gradient=gradient)
        rows = batch.examples.row
        once = torch.ones_like(rows)
        self.record.spend(rows, once, once * gradient)
        self.forecast.asked(len(rows))
        fooled = is_fooled(batch.examples, points, answer.logits, self.threat)
        if self.told_by_first_query:
            self.outcomes.correct[rows[(self.outcomes.forward[rows] == 1) & fooled]] = False
        loss = answer.loss
        if not self.attack.stays_inside:
            # A minimum-norm attack looks outside of the ball; what it sees there is nobody's result.
            loss = loss.where(self.threat.contains(points, batch.examples.x), -torch.inf)
        self.record.keep(batch.examples, points, answer.logits, loss, fooled)
        batch = self.attack.update(batch, answer, self.threat)
        leaving = fooled | self.attack.exhausted(batch)
        if not bool(leaving.any()):
            return batch, []
        settled = []
        ended = zip(rows[leaving].tolist(), batch.examples.entry[leaving].tolist(), strict=True)
        for (row, entry), was_fooled in zip(ended, fooled[leaving].tolist(), strict=True):
            job = Job(row, entry)
            if entry == 0:
                self.forecast.ended_first(int(self.outcomes.forward[row]), fooled=was_fooled)
            # Two entries of one example may end in the same batch.
            if not self.queue.is_cancelled(job) and self.queue.finish(job, fooled=was_fooled):
                settled.append(row)
        return (None if bool(leaving.all()) else select(batch, ~leaving)), settled

    def _drop_cancelled(self, state: S | None) -> S | None:
        """Let go of entries whose example has been fooled by an earlier one."""
        if state is None:
            return None
        jobs = zip(state.examples.row.tolist(), state.examples.entry.tolist(), strict=True)
        keep = [not self.queue.is_cancelled(Job(*job)) for job in jobs]
        if all(keep):
            return state
        return select(state, torch.tensor(keep, device=self.device)) if any(keep) else None

    def _classes(self) -> int:
        return self.all.logits.shape[1] if self.all.logits is not None else 0


def _count(state: State | None) -> int:
    return 0 if state is None else size(state)


def _merge(first: S | None, second: S | None) -> S | None:
    if first is None or second is None:
        return second if first is None else first
    return join(first, second)


def _cut(state: S, count: int) -> tuple[S, S | None]:
    """Take the first rows off a state."""
    if size(state) <= count:
        return state, None
    rows = torch.arange(size(state), device=state.examples.labels.device)
    return select(state, rows[:count]), select(state, rows[count:])
