"""The part of an evaluation that one process does: look at the model, then run one attack after the other."""

from __future__ import annotations

import time

import torch
from torch import Tensor, nn

from soar.attacks import Outcomes, Progress, run
from soar.attacks.attack import Planned
from soar.evaluation.attack_result import AttackResult, describe
from soar.evaluation.inspection import inspect
from soar.evaluation.journal import Journal
from soar.fuse import inference_copy
from soar.model_state import placement, probing
from soar.prediction import as_input, logits_of, predict
from soar.progress import Mode
from soar.progress import Progress as Bar
from soar.text import percent
from soar.threat import Threat

# The engine holds what it attacks as floats, so it is given so many batches at a time, however long the data.
_BATCHES_AT_ONCE = 16
_SAMPLE = 4


class Work:
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
            sample = self.images[:_SAMPLE]
            with probing(self.model):
                predict(self.model, sample)  # says clearly what is wrong with a model that gives no answer
            self.model = inference_copy(self.model, as_input(sample, device, dtype))
        with probing(self.model):
            self.logits = predict(self.model, self.images, self.batch_size)
        self.notes = inspect(self.model, self.images, self.labels, self.logits, batch_size=self.batch_size)
        self.predicted = self.logits.argmax(dim=1).cpu()
        self.correct = self.predicted == self.labels.cpu()
        self.standing = self.correct.clone()
        self.said = self.predicted.clone()

    def attack(self, planned: Planned, mode: Mode) -> AttackResult:
        """Run one attack on the examples that the journal does not know yet."""
        attack = planned.attack
        known = self.journal.known.get(attack.label, {}) if self.journal else {}
        is_known = torch.tensor([int(i) in known for i in self.index], dtype=torch.bool)
        attacked = self.standing if planned.survivors_only else self.correct
        rows = (attacked & ~is_known).nonzero()[:, 0]
        total = int(attacked.sum())
        robust, forward, backward = attacked.clone(), *(torch.zeros_like(self.predicted) for _ in range(2))
        # Who is not attacked stays what an earlier attack, or none, has made of it.
        said = torch.where(attacked, self.predicted, self.said)
        for row in (attacked & is_known).nonzero()[:, 0].tolist():
            robust[row], forward[row], backward[row], said[row] = known[int(self.index[row])]
        began = time.monotonic()
        with Bar(total, attack.label, mode, done=total - len(rows)) as bar:
            for part in rows.split(_BATCHES_AT_ONCE * self.batch_size):
                outcomes = self._run(planned, part, bar, of=len(rows), left=int(robust.sum()))
                robust[part], said[part] = outcomes.robust.cpu(), outcomes.predictions.cpu()
                forward[part], backward[part] = outcomes.forward.cpu(), outcomes.backward.cpu()
        self.said = torch.where(self.standing, said, self.said)
        self.standing = self.standing & robust
        return AttackResult(
            label=attack.label,
            **describe(planned),
            robust=robust,
            forward=planned.samples * forward,
            backward=planned.samples * backward,
            seconds=time.monotonic() - began,
            said=said,
        )

    def _run(self, planned: Planned, rows: Tensor, bar: Bar, *, of: int, left: int) -> Outcomes:
        """Attack some rows, of so many that this call attacks; so many of all are not fooled so far."""
        index, behind = self.index[rows], bar.done - bar.first

        def listen(progress: Progress, outcomes: Outcomes) -> None:
            if self.journal is not None and progress.settled:
                self.journal.write(planned.attack.label, index, progress.settled, outcomes)
            bar.expect((behind + progress.share * len(rows)) / of)
            # Who is fooled is settled first, so the share of the settled would begin far too low.
            most = percent((left - progress.done + progress.robust) / len(self.images))
            is_last = bar.done + len(progress.settled) == bar.total
            bar.advance(len(progress.settled), robust=most if is_last else f"at most {most}")

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


class Averaged(nn.Module):
    """Asks a model several times and gives the mean of its logits (expectation over transformation).

    An attack on a randomized model that follows one answer's slope follows noise, and a point that fools one
    answer out of many has proved little. Both are about the mean here.

    Args:
        model: any module that maps images to logits
        samples: how often to ask
    """

    def __init__(self, model: nn.Module, samples: int) -> None:
        super().__init__()
        self.model, self.samples = model, samples

    def forward(self, x: Tensor) -> Tensor:
        """Return the mean of the logits."""
        return torch.stack([logits_of(self.model, x) for _ in range(self.samples)]).mean(dim=0)
