"""Certify a model: which examples no perturbation within a threat can change."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal, NamedTuple, overload

import torch
from torch import Tensor, nn

from soar.attacks import PGD
from soar.distributed import current
from soar.environment import environment
from soar.errors import UserError, unknown
from soar.evaluation.attack import as_threats
from soar.evaluation.bounding import Bounding
from soar.evaluation.certificate import Certificate, contradiction
from soar.evaluation.examples import Data
from soar.evaluation.inspection import inspect
from soar.evaluation.journal import Journal, fingerprint
from soar.evaluation.smoothing import Smoothing, Votes
from soar.evaluation.target import Target
from soar.model_state import placement, probing
from soar.progress import Mode, Progress
from soar.text import percent
from soar.threat import L2, Threat
from soar.weights import Weights

Method = Literal["crown", "ibp", "smoothing"]
# No attack may fool what is certified; this one would find most mistakes of a bound.
CONTROL = PGD(steps=20, loss="margin")


class _Settled(NamedTuple):
    """What is known about examples, in the fields that a journal keeps."""

    robust: Tensor
    forward: Tensor
    backward: Tensor
    predictions: Tensor


@overload
def certify(
    model: nn.Module,
    data: Data,
    threat: Threat,
    method: Method | Bounding | Smoothing = ...,
    *,
    seed: int = ...,
    batch_size: int = ...,
    name: str = ...,
    data_name: str = ...,
    progress: Mode = ...,
    journal: Path | None = ...,
    weights: Weights | None = ...,
) -> Certificate: ...


@overload
def certify(
    model: nn.Module,
    data: Data,
    threat: Sequence[Threat],
    method: Method | Bounding | Smoothing = ...,
    *,
    seed: int = ...,
    batch_size: int = ...,
    name: str = ...,
    data_name: str = ...,
    progress: Mode = ...,
    journal: Path | None = ...,
    weights: Weights | None = ...,
) -> tuple[Certificate, ...]: ...


def certify(
    model: nn.Module,
    data: Data,
    threat: Threat | Sequence[Threat],
    method: Method | Bounding | Smoothing = "crown",
    *,
    seed: int = 0,
    batch_size: int = 64,
    name: str = "model",
    data_name: str = "data",
    progress: Mode = "quiet",
    journal: Path | None = None,
    weights: Weights | None = None,
) -> Certificate | tuple[Certificate, ...]:
    """Prove for which examples no perturbation within a threat changes the prediction.

    The certified accuracy is a lower bound of the robust accuracy, as that of attacks is an upper bound. Every
    certified example is attacked, too: if that succeeds, an error says so.

    Args:
        model: any module that maps images in [0, 1] to logits; bounds need one of known layers
        data: a split, images (uint8, or float in [0, 1]) and labels, or a torch Dataset or DataLoader of them
        threat: what the adversary may do; several radii give the curve
        method: "crown", "ibp" (faster, looser) or "smoothing", which certifies the smoothed model; with
            options: Bounding(refine=True), Smoothing(sigma=0.5)
        seed: seed of all random numbers
        batch_size: how many examples are bounded at once
        name: what to call the model in the record
        data_name: what to call the data in the record
        progress: "auto", "live", "plain" or "quiet"
        journal: a file for what is found on the way; a second call with the same arguments goes on from it
        weights: what the model was filled with, for the record

    Returns:
        The certificate; for several threats a tuple of them, in their order.

    Raises:
        UserError: if the data cannot be used, or the model has a layer without a bound

    >>> from soar.threat import Linf
    >>> x, y = torch.tensor([[[[0.9, 0.1]]], [[[0.45, 0.55]]]]), torch.tensor([0, 1])
    >>> certify(nn.Flatten(), (x, y), Linf("0.1")).certified
    tensor([ True, False])
    """
    threats = as_threats(threat)
    target = Target(
        model=model,
        data=data,
        threat=threats[0],
        seed=seed,
        batch_size=batch_size,
        progress=progress,
        name=name,
        data_name=data_name,
        weights=weights,
    )
    found = certify_target(target, threats, as_method(method), journal=journal)
    return found[0] if isinstance(threat, Threat) else found


def as_method(given: Method | Bounding | Smoothing) -> Bounding | Smoothing:
    """Return a method by its name, or as it is."""
    if isinstance(given, Bounding | Smoothing):
        return given
    if given == "smoothing":
        return Smoothing()
    if given not in ("crown", "ibp"):
        raise unknown("method", given, ("crown", "ibp", "smoothing"), "flag --method")
    return Bounding(method=given)


def certify_target(
    target: Target,
    threats: Sequence[Threat],
    method: Bounding | Smoothing,
    *,
    journal: Path | None = None,
) -> tuple[Certificate, ...]:
    """Certify a target within several balls, the smallest first; what fails there is not tried in a larger one.

    Args:
        target: the model and its examples; its own threat is not used
        threats: balls of one norm, in any order
        method: how
        journal: a file for what is found on the way

    Raises:
        UserError: if the model cannot be certified, or an attack fools a certified example
    """
    names = [str(one) for one in threats]
    if len({one.norm_name for one in threats}) != 1 or len(set(names)) < len(names):
        raise UserError(f"threat: got {', '.join(names)}, expected different radii of one norm (flag --eps)")
    if isinstance(method, Smoothing) and not isinstance(threats[0], L2):
        raise UserError(f"smoothing: got {threats[0]}, expected an l2 threat, which is all that it certifies")
    world = current()
    part = replace(
        target.subset(world.shard(len(target))), progress=target.progress if world.is_main else "quiet"
    )
    work = _Work(part, method, _journal(target, method, journal))
    shard = work.by_votes(threats) if isinstance(method, Smoothing) else work.by_bounds(threats)
    return tuple(_joined(target, threat, method, world.gather(shard[str(threat)])) for threat in threats)


class _Part(NamedTuple):
    """What one process found at one radius."""

    correct: Tensor
    certified: Tensor
    seconds: float


class _Work:
    """The examples that one process certifies.

    Args:
        target: the model and this process's part of the examples
        method: how
        journal: where results are noted and found again
    """

    def __init__(self, target: Target, method: Bounding | Smoothing, journal: Journal | None) -> None:
        self.target, self.method, self.journal = target, method, journal
        for note in inspect(target):
            if note.kind in ("random", "state", "batch") and isinstance(method, Bounding):
                raise UserError(f"{note.message}; only a fixed function of each image has bounds")

    def by_bounds(self, threats: Sequence[Threat]) -> dict[str, _Part]:
        """Certify by bounds of the logits."""
        method, target = self.method, self.target
        assert isinstance(method, Bounding)
        model = _in_precision(target.model, method.precision)
        open_rows, found = target.correct.clone(), {}
        for threat in sorted(threats, key=lambda one: one.eps):
            began = time.monotonic()
            certified = torch.zeros_like(open_rows)

            def bound(rows: Tensor, threat: Threat = threat) -> Tensor:
                x, y = target.x[rows], target.y[rows]
                with probing(model):
                    return method.margins(model, x.to(placement(model)[1]), y, threat).cpu() > 0

            for rows, flags in self._batches(str(threat), open_rows.nonzero()[:, 0], bound):
                certified[rows] = flags
            self._control(certified.nonzero()[:, 0], threat)
            open_rows = certified
            found[str(threat)] = _Part(target.correct, certified, time.monotonic() - began)
        return found

    def by_votes(self, threats: Sequence[Threat]) -> dict[str, _Part]:
        """Certify the smoothed model, at all radii at once."""
        method, target = self.method, self.target
        assert isinstance(method, Smoothing)
        began = time.monotonic()
        votes = Votes(torch.full_like(target.predictions, -1), torch.zeros_like(target.predictions))
        known = self._known("votes")
        for row, (_, count, _, predicted) in known.items():
            votes.predictions[row], votes.counts[row] = predicted, count
        rows = torch.tensor([row for row in range(len(target)) if row not in known], dtype=torch.int64)
        with Progress(len(target), "smoothing", target.progress, done=len(known)) as bar:

            def listen(row: Tensor, one: Votes) -> None:
                votes.predictions[row], votes.counts[row] = one
                zero = torch.zeros_like(votes.counts)
                self._note("votes", row.tolist(), _Settled(zero, votes.counts, zero, votes.predictions))
                bar.advance(1)

            method.vote(target, rows, listen)
        radii = method.radii(votes.counts)
        correct = (votes.predictions == target.labels.cpu()) & (radii > -torch.inf)
        seconds = time.monotonic() - began
        return {str(one): _Part(correct, correct & (radii >= one.radius), seconds) for one in threats}

    def _batches(
        self, label: str, rows: Tensor, bound: Callable[[Tensor], Tensor]
    ) -> list[tuple[Tensor, Tensor]]:
        """Return which of some rows are certified, those of the journal first."""
        known = self._known(label)
        old = [row for row in rows.tolist() if row in known]
        found = [(torch.tensor(old, dtype=torch.int64), torch.tensor([bool(known[row][0]) for row in old]))]
        new = torch.tensor([row for row in rows.tolist() if row not in known], dtype=torch.int64)
        total, count = len(rows), sum(bool(known[row][0]) for row in old)
        with Progress(total, f"{self.method.method} {label}", self.target.progress, done=len(old)) as bar:
            for part in new.split(self.target.batch_size):
                flags = bound(part)
                found.append((part, flags))
                whole = torch.zeros(len(self.target), dtype=torch.int64)
                whole[part] = flags.long()
                zero = torch.zeros_like(whole)
                self._note(label, part.tolist(), _Settled(whole, zero, zero, zero))
                count += int(flags.sum())
                bar.advance(len(part), certified=percent(count / len(self.target)))
        return [one for one in found if len(one[0])]

    def _control(self, rows: Tensor, threat: Threat) -> None:
        """Attack what is certified."""
        if len(rows):
            outcomes = self.target.attack(CONTROL, rows=rows, threat=threat)
            if not bool(outcomes.robust.all()):
                fooled = self.target.index[rows][~outcomes.robust.cpu()]
                raise contradiction(self.method.method, threat, fooled)

    def _known(self, label: str) -> dict[int, tuple[int, ...]]:
        known = self.journal.known.get(label, {}) if self.journal else {}
        return {row: known[int(i)] for row, i in enumerate(self.target.index) if int(i) in known}

    def _note(self, label: str, rows: list[int], settled: _Settled) -> None:
        if self.journal is not None:
            self.journal.write(label, self.target.index, rows, settled)


def _in_precision(model: nn.Module, precision: str) -> nn.Module:
    """Return the model, or a copy in another precision."""
    wanted = getattr(torch, precision)
    return model if placement(model)[1] == wanted else copy.deepcopy(model).to(wanted)


def _journal(target: Target, method: Bounding | Smoothing, path: Path | None) -> Journal | None:
    if path is None:
        return None
    description = f"{method} {target.seed} {target.data_name}"
    return Journal(path, fingerprint(target.model, description, target.images, target.labels), current().rank)


def _joined(
    target: Target, threat: Threat, method: Bounding | Smoothing, parts: Sequence[_Part]
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
        correct=torch.cat([part.correct for part in parts]),
        certified=torch.cat([part.certified for part in parts]),
        seconds=round(sum(part.seconds for part in parts), 3),
        environment=environment(),
    )
