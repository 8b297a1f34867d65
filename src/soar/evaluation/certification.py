"""Certify a target: which examples no perturbation within a threat can change, at one radius or several."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from soar.attacks import PGD, Planned
from soar.distributed import World, current
from soar.environment import environment
from soar.errors import UserError
from soar.evaluation.assess import assess
from soar.evaluation.bounding import Bounding
from soar.evaluation.bracket import check
from soar.evaluation.certificate import Certificate
from soar.evaluation.journal import Journal, Row, fingerprint
from soar.evaluation.methods import Method
from soar.evaluation.smoothing import Smoothing, Votes
from soar.evaluation.target import Target
from soar.progress import Progress
from soar.text import percent
from soar.threat import L2, Threat

# Every certified example is attacked: this would find most mistakes of a bound.
CONTROL = [Planned(PGD(steps=20, loss="margin"))]


def certify_target(
    target: Target, threats: Sequence[Threat], method: Method, *, journal: Path | None = None
) -> tuple[Certificate, ...]:
    """Certify a target within several balls, the smallest first.

    What is not certified in a ball is not certified in a larger one, and is not tried there.

    Args:
        target: the model and its examples; its own threat is not used
        threats: balls of one norm, in any order
        method: how
        journal: a file for what is found on the way

    Returns:
        One certificate per threat, in the order they were given.

    Raises:
        UserError: if the model cannot be certified, or an attack fools a certified example
    """
    names = [str(one) for one in threats]
    if len({one.norm_name for one in threats}) != 1 or len(set(names)) < len(names):
        raise UserError(f"threat: got {', '.join(names)}, expected different radii of one norm (flag --eps)")
    ordered = sorted(threats, key=lambda one: one.eps)
    if isinstance(method, Smoothing):
        found = _by_votes(target, ordered, method, journal)
    else:
        found = _by_bounds(target, ordered, method, journal)
    return tuple(found[name] for name in names)


def _by_bounds(
    target: Target, threats: Sequence[Threat], method: Bounding, path: Path | None
) -> dict[str, Certificate]:
    world, target = current(), method.prepared(target)
    notes = _journal(target, method, path)
    rows = world.shard(len(target))
    part = _shard(target, world)
    found, left = {}, target.correct
    for threat in threats:
        timer = _Timer()
        flags = _bounded(part, left[rows], threat, method, notes)
        certified = torch.cat(world.gather(flags))
        one = _certificate(target, threat, method, target.correct, certified, timer.stop(world))
        if bool(certified.any()):
            at = replace(target, threat=threat)
            check(one, assess(at, CONTROL, journal=path, spared=~certified))
        found[str(threat)], left = one, certified
    return found


def _bounded(target: Target, left: Tensor, threat: Threat, method: Bounding, notes: Journal | None) -> Tensor:
    """Return which of the examples that are left are certified at a radius, some of them from the journal."""
    label, index = str(threat), target.index.tolist()
    known = notes.known.get(label, {}) if notes else {}
    flags = torch.zeros_like(left)
    rows = left.nonzero()[:, 0]
    is_new = torch.tensor([index[row] not in known for row in rows.tolist()], dtype=torch.bool, device="cpu")
    for row in rows[~is_new].tolist():
        flags[row] = bool(known[index[row]].robust)
    if not bool(is_new.any()):
        return flags
    with Progress(len(rows), f"{method.method} {label}", target.progress, done=int((~is_new).sum())) as bar:
        for batch in rows[is_new].split(target.batch_size):
            flags[batch] = method.certified(target, batch, threat)
            if notes is not None:
                proved = zip(batch.tolist(), flags[batch].tolist(), strict=True)
                notes.note(label, {index[row]: Row(int(flag), 0, 0, 0) for row, flag in proved})
            bar.advance(len(batch), certified=percent(int(flags.sum()) / len(target)))
    return flags


def _by_votes(
    target: Target, threats: Sequence[Threat], method: Smoothing, path: Path | None
) -> dict[str, Certificate]:
    """Certify at all radii at once, since the noise does not depend on them."""
    if not isinstance(threats[0], L2):
        raise UserError(
            f"smoothing: got {threats[0]}, expected an l2 threat, which is all that it certifies"
            " (flag --norm l2)"
        )
    world, timer = current(), _Timer()
    votes = _voted(_shard(target, world), method, _journal(target, method, path))
    predictions, counts = (torch.cat(one) for one in zip(*world.gather(votes), strict=True))
    cost, radii = timer.stop(world), method.radii(counts)
    correct = (predictions == target.labels.cpu()) & (radii > -torch.inf)
    return {
        str(one): _certificate(target, one, method, correct, correct & (radii >= one.radius), cost)
        for one in threats
    }


def _voted(target: Target, method: Smoothing, notes: Journal | None) -> Votes:
    """Return the votes of all examples, some of them from the journal."""
    label, index = "votes", target.index.tolist()
    known = notes.known.get(label, {}) if notes else {}
    found = Votes(
        torch.zeros(len(index), dtype=torch.int64, device="cpu"),
        torch.zeros(len(index), dtype=torch.int64, device="cpu"),
    )
    done = sum(one in known for one in index)
    with Progress(len(target), method.method, target.progress, done=done) as bar:
        for row, number in enumerate(index):
            if number in known:
                votes = Votes(
                    torch.tensor(known[number].predictions, device="cpu"),
                    torch.tensor(known[number].forward, device="cpu"),
                )
            else:
                votes = method.vote(target, row)
                if notes is not None:
                    notes.note(label, {number: Row(0, int(votes.counts), 0, int(votes.predictions))})
                bar.advance()
            found.predictions[row], found.counts[row] = votes
    return found


class _Timer:
    """The time that a computation takes, on the wall and on all cores."""

    def __init__(self) -> None:
        self._began = time.monotonic(), time.process_time()

    def stop(self, world: World) -> tuple[float, float]:
        """Return the seconds of the slowest process, and the CPU seconds of all of them."""
        spent = time.monotonic() - self._began[0], time.process_time() - self._began[1]
        seconds, cpu = zip(*world.gather(spent), strict=True)
        return round(max(seconds), 3), round(sum(cpu), 3)


def _shard(target: Target, world: World) -> Target:
    progress = target.progress if world.is_main else "quiet"
    return replace(target.subset(world.shard(len(target))), progress=progress)


def _journal(target: Target, method: Method, path: Path | None) -> Journal | None:
    if path is None:
        return None
    description = f"{method} {target.seed} {target.data_name}"
    return Journal(path, fingerprint(target.model, description, target.stored, target.labels), current().rank)


def _certificate(
    target: Target,
    threat: Threat,
    method: Method,
    correct: Tensor,
    certified: Tensor,
    cost: tuple[float, float],
) -> Certificate:
    return Certificate(
        model=target.name,
        weights=target.weights,
        data=target.data_name,
        threat=threat,
        seed=target.seed,
        method=method.method,
        options=method.options,
        index=target.index.cpu(),
        labels=target.labels.cpu(),
        correct=correct,
        certified=certified,
        seconds=cost[0],
        cpu_seconds=cost[1],
        environment=environment(),
    )
