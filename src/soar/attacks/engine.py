"""The only loop over attacks: a batch that is always full of examples still worth attacking.

An example that is fooled, or whose budget is spent, leaves at once and the next one takes its place, as
inference servers do it (continuous batching). The engine does not trust attacks: it evaluates every point
itself, and counts a success only where the model is fooled at that very point, inside the threat set.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import compress, count
from typing import Any, Generic

import torch
from torch import Tensor, nn

from soar import values
from soar.attacks.attack import Attack, Examples, S, fitted, require_attack
from soar.attacks.oracle import logits_at, precise, query_model, reaches_goal
from soar.attacks.queue import Queue, QueueEntry
from soar.attacks.record import Outcomes, Record
from soar.attacks.states import Lane, join, select
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
        active: Lane[S] | None = None
        parked: Lane[S] | None = None
        done = robust = 0
        while True:
            active, parked = self._refill(active, parked)
            # An example about to get its last prediction may be settled by it: look before running ahead.
            if parked is not None and (len(parked) >= self.batch_size or self._free(active)):
                batch, parked = parked.cut(self.batch_size)
            else:
                active = self._add(active, self.queue.take_ahead(self._free(active)))
                if active is None:
                    return
                batch, active = active.cut(self.batch_size)
            assert batch is not None, "a lane has rows"
            remaining, settled = self._evaluate(batch)
            active = join(active, remaining)
            if self.queue.has_canceled():
                active, parked = self._drop_canceled(active), self._drop_canceled(parked)
            done += len(settled)
            robust += sum(map(self.queue.is_robust, settled))
            if progress is not None:
                share = self.queue.share(self.evaluated)
                progress(AttackProgress(settled, done, len(self.rows), robust, share), self.outcomes)

    def _free(self, lane: Lane[S] | None) -> int:
        """Count the places of a batch that a lane leaves."""
        return max(0, self.batch_size - (0 if lane is None else len(lane)))

    def _refill(
        self, active: Lane[S] | None, parked: Lane[S] | None
    ) -> tuple[Lane[S] | None, Lane[S] | None]:
        """Let waiting examples take free places, those of examples that need no gradient included."""
        active = self._add(active, self.queue.take(self._free(active)))
        if active is None or all(active.wants) or not any(active.wants):
            return active, parked
        parked = join(parked, active.pick([place for place, wants in enumerate(active.wants) if not wants]))
        active = active.pick([place for place, wants in enumerate(active.wants) if wants])
        return self._add(active, self.queue.take(self._free(active))), parked

    def _add(self, lane: Lane[S] | None, jobs: list[QueueEntry]) -> Lane[S] | None:
        """Start the attack on further jobs and put them behind the others."""
        if not jobs:
            return lane
        rows, entries = torch.tensor(jobs, device=self.examples.x.device).unbind(1)
        started = self.attack.start(replace(select(self.examples, rows), entry=entries), self.threat)
        if hasattr(self.attack, "spent"):
            # An attack of another library queries the model by itself when it starts.
            self.record.spend(rows, *self.attack.spent(started))
        known: int | None = getattr(self.attack, "gradients", None)
        wants = self.attack.wants_gradient(started).tolist() if known is None else [known > 0] * len(jobs)
        return join(lane, Lane(started, jobs, wants))

    def _evaluate(self, lane: Lane[S]) -> tuple[Lane[S] | None, list[int]]:
        """Evaluate a batch, record the predictions, and keep the examples that go on."""
        batch, gradient = lane.state, any(lane.wants)
        points, answer = query_model(self.model, self.attack, batch, self.threat, gradient=gradient)
        rows, logits = batch.examples.row, answer.logits
        once = torch.ones_like(rows)
        self.record.spend(rows, once, once * gradient)
        self.evaluated += len(rows)
        fooled, loss = reaches_goal(batch.examples, logits), self._kept_loss(answer.loss, batch, points)
        # The attack may work in place.
        kept = points.clone()
        after = self.attack.update(batch, answer, self.threat)
        ended = [fooled, self.attack.exhausted(after), self.attack.wants_gradient(after)]
        # The only wait for a GPU, unless a point fools the model.
        flags = torch.stack([*map(Tensor.long, ended), self.outcomes.forward[rows]]).tolist()
        claims, is_over, wants, asked = flags
        is_fooled, again = [False] * len(rows), [False] * len(rows)
        if any(claims):
            kept, logits, is_fooled, again = self._confirm(batch.examples, kept, logits, claims)
            fooled = torch.tensor(is_fooled, device=rows.device)
        if self.examples.logits is None:
            self.record.drop(rows, (self.outcomes.forward[rows] == 1) & fooled)
        self.record.keep(batch.examples, kept, logits, loss, fooled)
        settled, staying = [], []
        for place, job in enumerate(lane.jobs):
            if not is_fooled[place] and not is_over[place]:
                staying.append(place)
            # Two entries of one example may end in the same batch.
            elif not self.queue.is_canceled(job) and self.queue.finish(
                job, fooled=is_fooled[place], asked=asked[place] + again[place]
            ):
                settled.append(job.row)
        return Lane(after, lane.jobs, [want > 0 for want in wants]).pick(staying), settled

    def _kept_loss(self, loss: Tensor, batch: S, points: Tensor) -> Tensor:
        """Return -inf in place of the loss of points outside of the ball, which are no result.

        Only a minimum-norm attack looks there, and only points whose loss is the highest so far matter.
        """
        if self.attack.stays_inside:
            return loss
        x = batch.examples.x
        if loss.device.type != "cpu":
            # Looking at all points does not wait for the device, as finding out which of them matter does.
            return loss.where(self.threat.contains(points, x), -torch.inf)
        higher = (loss > self.record.highest_loss[batch.examples.row]).nonzero()[:, 0]
        inside = self.threat.contains(points[higher], x[higher])
        return torch.full_like(loss, -torch.inf).index_copy(0, higher, loss[higher].where(inside, -torch.inf))

    def _confirm(
        self, examples: Examples, points: Tensor, logits: Tensor, is_fooled: list[int]
    ) -> tuple[Tensor, Tensor, list[bool], list[bool]]:
        """Project the points that fool the model, and evaluate them again where that moves one.

        With a judge, all of them are evaluated again, by the judge. A minimum-norm attack also fools the
        model outside of the ball, which does not count.

        Returns:
            All points, their logits, which of them count and which were evaluated again.
        """
        claims = [place for place, flag in enumerate(is_fooled) if flag]
        places = torch.tensor(claims, device=points.device)
        some, claimed = select(examples, places), points[places]
        projected = self.threat.project(claimed, some.x)
        moved = (projected != claimed).flatten(1).any(dim=1)
        inside = torch.ones_like(moved) if self.attack.stays_inside else self.threat.contains(claimed, some.x)
        counting, moving = torch.stack([inside, inside & moved]).tolist()
        won = dict.fromkeys(compress(claims, counting), True)
        is_asked = bool(won) and (self.judge is not None or any(moving))
        if is_asked:
            if len(won) < len(claims):
                kept = torch.tensor([*compress(count(), counting)], device=points.device)
                places, some, projected = places[kept], select(some, kept), projected[kept]
            with torch.no_grad():
                answers = logits_at(self.judge or self.model, projected, some).to(logits.dtype)
            once = torch.ones_like(places)
            self.record.spend(some.row, once, 0 * once)
            won = dict(zip(won, reaches_goal(some, answers).tolist(), strict=True))
            points, logits = points.index_copy(0, places, projected), logits.index_copy(0, places, answers)
        flags = [won.get(place, False) for place in range(len(points))]
        return points, logits, flags, [is_asked and place in won for place in range(len(points))]

    def _drop_canceled(self, lane: Lane[S] | None) -> Lane[S] | None:
        """Drop entries whose example has been fooled by an earlier one."""
        if lane is None:
            return None
        return lane.pick([place for place, job in enumerate(lane.jobs) if not self.queue.is_canceled(job)])
