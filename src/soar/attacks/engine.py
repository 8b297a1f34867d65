"""The only loop over attacks: a batch that is always full of examples still worth attacking.

An example that is fooled, or whose budget is spent, leaves at once and the next one takes its place, as
inference servers do it (continuous batching). The engine does not trust attacks: it evaluates every point
itself, and counts a success only where the model is fooled at that very point, inside the threat set.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Generic

import torch
from torch import Tensor, nn

from soar import values
from soar.attacks.attack import Attack, Examples, S, fitted, require_attack
from soar.attacks.oracle import logits_at, precise, query_model, reaches_goal
from soar.attacks.queue import Queue, QueueEntry
from soar.attacks.record import Outcomes, Record
from soar.attacks.states import cut, join, select, size
from soar.errors import UserError
from soar.inputs import check_batch_size, check_images, check_numbers
from soar.model_state import placement, probing, require_module
from soar.prediction import as_input, knowing, predict
from soar.threat import Threat, require_threat


@dataclass(frozen=True)
class AttackProgress:
    """How far a run is; handed to the caller after every batch."""

    settled: list[int]
    """rows that were settled by this batch"""
    done: int
    total: int
    robust: int
    """how many of the settled examples are still correctly classified"""
    share: float
    """an estimate of the share of the work that is done"""


Listener = Callable[[AttackProgress, Outcomes], None]


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
    judge: nn.Module | None = None,
    progress: Listener | None = None,
) -> Outcomes:
    """Attack every correctly classified example, and return which ones stay correctly classified.

    What happens to an example depends on the model, the attack, the seed and the example's index, and
    neither on the batch size nor on the other examples. The model is used in eval mode and left as it was.

    Args:
        model: any module that maps images in [0, 1] to logits; a `PerExample` needs `clean_logits`
        attack: the recipe to follow
        threat: what the adversary may do
        images: float in [0, 1], or uint8
        labels: true classes
        index: identity of each example; by default its position
        goal: target classes; an example is then fooled only where exactly that class is predicted
        seed: seed of all random numbers
        batch_size: how many examples are evaluated at once
        clean_logits: the model's logits at the images, if they are known already
        judge: the model whose predictions count, where `model` is a faster copy of it; it is evaluated at
            every point that fools the copy, and the attack goes on where it is not fooled itself
        progress: called after every batch

    Raises:
        UserError: if images, labels and indices do not fit together or images are out of range
    """
    require_module(model)
    require_attack(attack)
    require_threat(threat)
    attack = fitted(attack, threat)
    values.whole(seed, "seed")
    check_batch_size(batch_size)
    check_images(images, labels)
    for name, given in (("index", index), ("goal", goal)):
        if given is not None:
            check_numbers(given, len(labels), name)
    with probing(model), probing(judge or model), knowing(labels):
        # An attack that starts at the clean image finds out by itself which images are correctly classified.
        known_later = attack.starts_at_image and goal is None and judge is None
        asked = clean_logits is None and not known_later
        logits = predict(judge or model, images, batch_size) if asked else clean_logits
        _check_goal(attack, goal, logits)
        device, dtype = placement(model)
        x, logits = as_input(images, device, dtype), None if logits is None else precise(logits.to(device))
        examples = Examples.of(x, labels, index=index, goal=goal, logits=logits, seed=seed)
        session = _Session(model, attack, threat, batch_size, examples, judge, asked=int(asked))
        session.attack_all(progress)
        # An attack may promise more than it keeps; points that fool the model are inside in any case.
        adversarial = session.outcomes.adversarial
        adversarial.copy_(threat.project(adversarial, x))
    return session.outcomes


def _check_goal(attack: Attack[Any], goal: Tensor | None, logits: Tensor | None) -> None:
    """Refuse a class that the model does not have, unless the attack climbs a loss without targets.

    Such an attack never reaches it, and so goes on to the end of its budget.
    """
    if goal is None or logits is None or not len(goal) or callable(getattr(attack, "loss", None)):
        return
    highest, classes = int(goal.max()), logits.shape[1]
    if highest >= classes:
        raise UserError(
            f"goal: got {highest}, expected 0 to {classes - 1} for {classes} classes, or -1 for none"
        )


class _Session(Generic[S]):
    """One run of one attack: the examples, the queue and the record."""

    def __init__(
        self,
        model: nn.Module,
        attack: Attack[S],
        threat: Threat,
        batch_size: int,
        examples: Examples,
        judge: nn.Module | None,
        *,
        asked: int,
    ) -> None:
        self.judge = judge
        self.model, self.attack, self.threat, self.batch_size = model, attack, threat, batch_size
        self.examples, self.record = examples, Record(examples, asked)
        self.outcomes = self.record.outcomes
        self.rows = self.outcomes.correct.nonzero()[:, 0].tolist()
        classes = 0 if examples.logits is None else examples.logits.shape[1]
        self.queue = Queue(self.rows, attack.entries(classes), attack.budget)
        self.evaluated = 0

    def attack_all(self, progress: Listener | None) -> None:
        """Keep the batch full until every example is settled.

        Examples that only need a last prediction are parked until there is a batch of them, so that no
        gradient is computed for them and the places they held are taken by others.
        """
        active: S | None = None
        parked: S | None = None
        done = robust = 0
        while True:
            active, parked = self._refill(active, parked)
            # An example about to get its last prediction may be settled by it: look before running ahead.
            if parked is not None and (size(parked) >= self.batch_size or size(active) < self.batch_size):
                batch, parked = cut(parked, self.batch_size)
            else:
                active = self._add(active, self.queue.take_ahead(self.batch_size - size(active)))
                if active is None:
                    return
                batch, active = cut(active, self.batch_size)
            remaining, settled = self._evaluate(batch)
            active = join(active, remaining)
            if self.queue.has_canceled():
                active, parked = self._drop_canceled(active), self._drop_canceled(parked)
            done += len(settled)
            robust += int(self.outcomes.robust[settled].sum())
            if progress is not None:
                share = self.queue.share(self.evaluated)
                progress(AttackProgress(settled, done, len(self.rows), robust, share), self.outcomes)

    def _refill(self, active: S | None, parked: S | None) -> tuple[S | None, S | None]:
        """Let waiting examples take free places, those of examples that need no gradient included."""
        active = self._add(active, self.queue.take(self.batch_size - size(active)))
        if active is None:
            return active, parked
        wanted = self.attack.wants_gradient(active)
        if bool(wanted.all()) or not bool(wanted.any()):
            return active, parked
        parked = join(parked, select(active, ~wanted))
        active = select(active, wanted)
        return self._add(active, self.queue.take(self.batch_size - size(active))), parked

    def _add(self, state: S | None, jobs: list[QueueEntry]) -> S | None:
        """Start the attack on further jobs and put them behind the others."""
        if not jobs:
            return state
        rows, entries = torch.tensor(jobs, device=self.examples.x.device).unbind(1)
        started = self.attack.start(replace(select(self.examples, rows), entry=entries), self.threat)
        if hasattr(self.attack, "spent"):
            # An attack of another library queries the model by itself when it starts.
            self.record.spend(rows, *self.attack.spent(started))
        return join(state, started)

    def _evaluate(self, batch: S) -> tuple[S | None, list[int]]:
        """Evaluate a batch, record the predictions, and keep the examples that go on."""
        gradient = bool(self.attack.wants_gradient(batch).any())
        points, answer = query_model(self.model, self.attack, batch, self.threat, gradient=gradient)
        rows = batch.examples.row
        once = torch.ones_like(rows)
        self.record.spend(rows, once, once * gradient)
        self.evaluated += len(rows)
        fooled, logits = reaches_goal(batch.examples, answer.logits), answer.logits
        if bool(fooled.any()):
            points, logits, fooled = self._confirm(batch.examples, points, logits, fooled)
        if self.examples.logits is None:
            self.outcomes.correct[rows[(self.outcomes.forward[rows] == 1) & fooled]] = False
        self.record.keep(batch.examples, points, logits, self._kept_loss(answer.loss, batch, points), fooled)
        batch = self.attack.update(batch, answer, self.threat)
        leaving = fooled | self.attack.exhausted(batch)
        if not bool(leaving.any()):
            return batch, []
        settled = []
        ended = (rows, batch.examples.entry, fooled, self.outcomes.forward[rows])
        for row, entry, was_fooled, asked in zip(*(one[leaving].tolist() for one in ended), strict=True):
            job = QueueEntry(row, entry)
            # Two entries of one example may end in the same batch.
            if not self.queue.is_canceled(job) and self.queue.finish(job, fooled=was_fooled, asked=asked):
                settled.append(row)
        return (None if bool(leaving.all()) else select(batch, ~leaving)), settled

    def _kept_loss(self, loss: Tensor, batch: S, points: Tensor) -> Tensor:
        """Return -inf in place of the loss of points outside of the ball, which are no result.

        Only a minimum-norm attack looks there, and only points whose loss is the highest so far matter.
        """
        if self.attack.stays_inside:
            return loss
        higher = (loss > self.record.highest_loss[batch.examples.row]).nonzero()[:, 0]
        inside = self.threat.contains(points[higher], batch.examples.x[higher])
        return torch.full_like(loss, -torch.inf).index_copy(0, higher, loss[higher].where(inside, -torch.inf))

    def _confirm(
        self, examples: Examples, points: Tensor, logits: Tensor, fooled: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Project the points that fool the model, and evaluate them again where that moves one.

        With a judge, all of them are evaluated again, by the judge. A minimum-norm attack also fools the
        model outside of the ball, which does not count.

        Returns:
            All points, their logits and which of them count.
        """
        if not self.attack.stays_inside:
            rows = fooled.nonzero()[:, 0]
            fooled = fooled.index_copy(0, rows, self.threat.contains(points[rows], examples.x[rows]))
        places = fooled.nonzero()[:, 0]
        some, claimed = select(examples, places), points[places]
        projected = self.threat.project(claimed, some.x)
        if not len(places) or (self.judge is None and torch.equal(projected, claimed)):
            return points, logits, fooled
        with torch.no_grad():
            answers = logits_at(self.judge or self.model, projected, some).to(logits.dtype)
        once = torch.ones_like(places)
        self.record.spend(some.row, once, 0 * once)
        return (
            points.index_copy(0, places, projected),
            logits.index_copy(0, places, answers),
            fooled.index_copy(0, places, reaches_goal(some, answers)),
        )

    def _drop_canceled(self, state: S | None) -> S | None:
        """Drop entries whose example has been fooled by an earlier one."""
        if state is None:
            return None
        jobs = zip(state.examples.row.tolist(), state.examples.entry.tolist(), strict=True)
        keep = [not self.queue.is_canceled(QueueEntry(*job)) for job in jobs]
        if all(keep):
            return state
        return select(state, torch.tensor(keep, device=state.examples.x.device)) if any(keep) else None
