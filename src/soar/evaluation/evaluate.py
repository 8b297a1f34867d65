"""Measure how robust a model is: every attack on every example, shared over processes, resumable."""

from __future__ import annotations

import time
from contextlib import nullcontext
from dataclasses import fields
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from soar.attacks import Outcomes, Progress, predict, run
from soar.attacks.oracle import as_input, check_images
from soar.attacks.plan import Planned
from soar.attacks.suites import Wanted, resolve
from soar.data import Split
from soar.environment import environment
from soar.errors import UserError
from soar.evaluation.assessment import Assessment, AttackResult
from soar.evaluation.averaged import Averaged
from soar.evaluation.faster import faster
from soar.evaluation.inspection import inspect
from soar.evaluation.journal import Journal, fingerprint
from soar.model_state import placement, probing
from soar.progress import Mode
from soar.progress import Progress as Bar
from soar.threat import Threat
from soar.training.distributed import World, current

Examples = Split | tuple[Tensor, Tensor]

# The engine holds what it attacks as floats, so it is given so many batches at a time, however long the data.
_BATCHES_AT_ONCE = 16
_SAMPLE = 4


def evaluate(
    model: nn.Module,
    data: Examples,
    threat: Threat,
    attacks: Wanted = "quick",
    *,
    seed: int = 0,
    batch_size: int = 128,
    name: str = "model",
    data_name: str = "data",
    progress: Mode = "quiet",
    journal: Path | None = None,
    fast: bool = True,
) -> Assessment:
    """Attack a model and say, with intervals, how often it stays right.

    Every attack runs alone on all examples that are classified right, unless its suite gives it only what
    earlier attacks have left. Before that the model is looked at, and what is odd about it is noted. Under
    torchrun each process takes a part of the examples and all of them return the whole result.

    Args:
        model: any module that maps images in [0, 1] to logits
        data: a split, or images (uint8, or float in [0, 1]) and labels
        threat: what the adversary may do
        attacks: a suite such as "quick" or "standard", an attack, or a list of them
        seed: seed of all random numbers
        batch_size: how many examples are evaluated at once
        name: what to call the model in the record
        data_name: what to call the data in the record
        progress: "auto", "live", "plain" or "quiet"
        journal: a file for what is found on the way; a second call with the same arguments goes on from it
        fast: attack a copy with batch norms folded and filters stored as fast kernels like it; logits change
            by rounding only

    Raises:
        UserError: if the data, an attack or the model's answers make no sense

    >>> from soar.threat import Linf
    >>> x, y = torch.tensor([[[[0.9, 0.1]]], [[[0.45, 0.55]]]]), torch.tensor([0, 1])
    >>> found = evaluate(nn.Flatten(), (x, y), Linf("0.1"), "fgsm")
    >>> found.accuracy("clean"), found.accuracy("FGSM"), found.worst_case
    (1.0, 0.5, 0.5)
    """
    chosen = resolve(attacks)
    images, labels, index = _parts(data)
    check_images(images, labels)
    if not len(labels):
        raise UserError("data: got no images, expected at least one")
    world = current()
    mine = world.shard(len(labels))
    description = f"{[describe(one) for one in chosen]} {threat} {seed} {data_name} {len(labels)}"
    record = (
        nullcontext(None)
        if journal is None
        else Journal(journal, fingerprint(model, description), world.rank)
    )
    with record as notes:
        work = _Work(model, images[mine], labels[mine], index[mine], threat, seed, batch_size, notes)
        work.look(fast=fast)
        mode: Mode = progress if world.is_main else "quiet"
        results = tuple(work.attack(one, mode) for one in chosen)
    part = Assessment(
        model=name,
        data=data_name,
        threat=threat,
        seed=seed,
        index=work.index,
        labels=work.labels,
        correct=work.correct,
        attacks=results,
        notes=work.notes,
        environment=environment(),
    )
    return _together(part, world)


def describe(planned: Planned) -> dict[str, Any]:
    """Give an attack's name, its numbers and the rules of its use, as they are stored.

    >>> from soar.attacks import FGSM
    >>> describe(Planned(FGSM()))["name"]
    'FGSM'
    """
    attack = planned.attack
    numbers = {one.name: getattr(attack, one.name) for one in fields(attack)}  # type: ignore[arg-type]
    plain = {
        key: value if isinstance(value, bool | int | float | str | None) else _as_text(value)
        for key, value in numbers.items()
        if not isinstance(value, nn.Module)
    }
    return {
        "name": type(attack).__name__,
        "parameters": plain,
        "survivors_only": planned.survivors_only,
        "samples": planned.samples,
    }


class _Work:
    """The part of an evaluation that one process does."""

    def __init__(
        self,
        model: nn.Module,
        images: Tensor,
        labels: Tensor,
        index: Tensor,
        threat: Threat,
        seed: int,
        batch_size: int,
        journal: Journal | None,
    ) -> None:
        self.model, self.images, self.labels, self.index = model, images, labels, index
        self.threat, self.seed, self.batch_size, self.journal = threat, seed, batch_size, journal

    def look(self, *, fast: bool) -> None:
        """Find out what the model says about the clean images, and whether its answers can be trusted."""
        device, dtype = placement(self.model)
        if fast and len(self.images):
            self.model = faster(self.model, as_input(self.images[:_SAMPLE], device, dtype))
        with probing(self.model):
            self.logits = predict(self.model, self.images, self.batch_size)
        self.notes = inspect(self.model, self.images, self.labels, self.logits, batch_size=self.batch_size)
        self.correct = (self.logits.argmax(dim=1) == self.labels.to(device)).cpu()
        self.standing = self.correct.clone()

    def attack(self, planned: Planned, mode: Mode) -> AttackResult:
        """Run one attack on the examples that the journal does not know yet."""
        attack = planned.attack
        known = self.journal.known.get(attack.label, {}) if self.journal else {}
        is_known = torch.tensor([int(i) in known for i in self.index], dtype=torch.bool)
        attacked = self.standing if planned.survivors_only else self.correct
        rows = (attacked & ~is_known).nonzero()[:, 0]
        total = int(attacked.sum())
        robust, forward, backward = attacked.clone(), *(torch.zeros_like(self.labels) for _ in range(2))
        began = time.monotonic()
        with Bar(total, attack.label, mode, done=total - len(rows)) as bar:
            for part in rows.split(_BATCHES_AT_ONCE * self.batch_size):
                outcomes = self._run(planned, part, bar, of=len(rows))
                robust[part] = outcomes.robust.cpu()
                forward[part], backward[part] = outcomes.forward.cpu(), outcomes.backward.cpu()
        for row in (attacked & is_known).nonzero()[:, 0].tolist():
            kept, forward[row], backward[row] = known[int(self.index[row])]
            robust[row] = bool(kept)
        self.standing = self.standing & robust
        return AttackResult(
            label=attack.label,
            **describe(planned),
            robust=robust,
            forward=planned.samples * forward,
            backward=planned.samples * backward,
            seconds=time.monotonic() - began,
        )

    def _run(self, planned: Planned, rows: Tensor, bar: Bar, *, of: int) -> Outcomes:
        index, behind = self.index[rows], bar.done - bar.first

        def listen(progress: Progress, outcomes: Outcomes) -> None:
            if self.journal is not None and progress.settled:
                self.journal.write(planned.attack.label, index, progress.settled, outcomes)
            bar.expect((behind + progress.share * len(rows)) / of)
            shown = {"robust": f"{progress.robust / progress.done:.1%}"} if progress.done else {}
            bar.advance(len(progress.settled), **shown)

        model = self.model if planned.samples == 1 else Averaged(self.model, planned.samples)
        return run(
            model,
            planned.attack,
            self.threat,
            self.images[rows],
            self.labels[rows],
            index=index,
            seed=self.seed,
            batch_size=self.batch_size,
            clean_logits=self.logits[rows.to(self.logits.device)],
            progress=listen,
        )


def _parts(data: Examples) -> tuple[Tensor, Tensor, Tensor]:
    if isinstance(data, tuple):
        images, labels = data
        return images, labels, torch.arange(len(labels))
    return data.images, data.labels, data.indices


def _together(part: Assessment, world: World) -> Assessment:
    """Join what all processes found, in the order of the examples."""
    whole, *others = world.gather(part)
    for other in others:
        whole = whole.merge(other)
    joined: Assessment = whole
    return joined


def _as_text(value: Any) -> str:
    return getattr(value, "__name__", None) or str(value)
