"""The training loop.

Read `Trainer._loop` first: validate, save, end or make one more update. A run is a pure function of its
settings, its seed and its initial weights: data order, augmentation and attacks draw counter-based random
numbers, so a run that is killed and resumed gives the same weights as one that was not: bit for bit on a CPU,
and on a GPU with `training.deterministic`, without which the order of its sums may change. Only with
`training.minutes` do the weights also depend on how many updates the machine makes in that time.
"""

from __future__ import annotations

import math
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from itertools import count
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from soar import checkpoints, distributed
from soar.data import Augmentation, Batch, Dataset, Extra, batches_per_epoch, training_batches
from soar.environment import deterministic
from soar.progress import Mode, Progress
from soar.recipes.settings import GuardSettings, TrainingSettings, ValidationSettings, checked
from soar.runs import start_weights
from soar.text import percent
from soar.training.checkpointing import CheckpointManager, TrainerState
from soar.training.guards import Guards, StopRequest
from soar.training.length import Length
from soar.training.result import FitResult, Outcome, Status
from soar.training.tracking import Sink
from soar.training.updates import Updates
from soar.training.validation import Scores, selection_rule, validate
from soar.weights import load_weights

if TYPE_CHECKING:
    from soar.attacks import AttackProgress, Outcomes
    from soar.objectives import Objective


class _Interrupted(Exception):  # noqa: N818 - not an error
    """Ends a validation when the process is asked to stop."""


class Trainer:
    """Minimize an objective by SGD or Muon, with validation, guards and checkpoints.

    Args:
        objective: holds the model and the threat; data-parallel training wraps the objective
        data: `train` is learned from, `validation` selects the best checkpoint, `test` is never used
        training: settings of the training
        validation: settings of the validation
        guards: when training stops by itself
        run: the run folder; nothing in it is ever deleted but old checkpoints
        augmentation: random augmentation of the training images
        extra: a second source of training examples, of which every batch has a fixed share
        seed: seed of data order, augmentation and validation
        device: such as "cpu" or "cuda"; under torchrun each process takes its own GPU
        sinks: further destinations of metrics besides `metrics.jsonl`
        progress: how to show progress
        resume: go on from the newest usable checkpoint, if there is one

    Raises:
        UserError: when settings contradict each other, the data or the objective
    """

    def __init__(
        self,
        objective: Objective,
        data: Dataset,
        training: TrainingSettings,
        validation: ValidationSettings = ValidationSettings(),  # noqa: B008 - frozen
        guards: GuardSettings = GuardSettings(),  # noqa: B008 - frozen
        *,
        run: Path,
        augmentation: Augmentation,
        extra: Extra | None = None,
        seed: int = 0,
        device: str = "cpu",
        sinks: Sequence[Sink] = (),
        progress: Mode = "auto",
        resume: bool = False,
    ) -> None:
        self.objective, self.data = objective, data
        self.training = checked(training, "training")
        self.validation = checked(validation, "validation")
        self.run, self.seed, self.resume = run, seed, resume
        self.augmentation, self.extra, self.progress = augmentation, extra, progress
        self.world = distributed.current()
        self.device = self.world.device(device)
        self.steps_per_epoch = batches_per_epoch(data.train, training.batch_size, extra)
        self.length = Length(self.training, self.steps_per_epoch)
        self.threat = objective.threat
        self.held_out = data.validation.first(validation.examples or len(data.validation))
        resumes = resume and bool(checkpoints.available(run))
        if training.start_from is not None and not resumes:
            start = start_weights(training.start_from)
            load_weights(objective.model, start.file, "training.start_from")
        self.updates = Updates(
            objective, self.training, self.steps_per_epoch, device=self.device, world=self.world
        )
        self.state = TrainerState(Guards(checked(guards, "guards")))
        identity = {
            "seed": seed,
            "batch_size": training.batch_size,
            "training examples": len(data.train),
        }
        if extra is not None:
            identity["extra examples"] = len(extra.split)
            identity["extra examples in a batch"] = extra.count(training.batch_size)
        self.manager = CheckpointManager(
            run,
            self.state,
            self.updates,
            identity=identity,
            rule=selection_rule(self.held_out, self.threat, validation),
            sinks=sinks,
        )
        self._stop = StopRequest()
        self._stop_agreed = self._save_agreed = False
        self._seconds = 0.0

    def fit(self) -> FitResult:
        """Train until the end, until a guard stops the training, or until a signal.

        Raises:
            UserError: when the run folder holds a training and `resume` is not set, when another process
                trains there, when its checkpoints belong to other settings, or when the last one cannot
                be written
        """
        with (
            deterministic(self.training.deterministic),
            distributed.joined(self.device.type) as self.world,
            self._stop,
        ):
            try:
                with self.updates.seeded(self.seed, self.world.rank):
                    status, reason = self._train()
                best, stopwatch = self.manager.best, self.manager.stopwatch
                seconds, cpu_seconds = stopwatch.seconds("wall"), stopwatch.seconds("cpu")
                if self.world.is_main and status != "interrupted":
                    Outcome(status, reason, round(seconds, 1), round(cpu_seconds, 1)).save(self.run)
            finally:
                self.objective.threat = self.threat
                self.manager.close()
        return FitResult(
            status,
            reason,
            steps=self.state.step,
            best=best if best.exists() else None,
            best_scores=self.state.best,
            last_scores=self.state.last,
            seconds=seconds,
            cpu_seconds=cpu_seconds,
        )

    def _train(self) -> tuple[Status, str]:
        self.manager.open(self.world, resume=self.resume)
        self._agree_on_time()
        self.objective.train()
        done, total = self.state.step * self.training.batch_size, self._expected_images()
        mode: Mode = self.progress if self.world.is_main else "quiet"
        with self.updates.shared_among(self.world), Progress(total, "training", mode, done=done) as bar:
            bar.note(self.manager.rule)
            return self._loop(bar)

    def _loop(self, bar: Progress) -> tuple[Status, str]:
        trouble: str | None = None
        with closing(batches_of(self)) as batches:
            while True:
                if self._validation_is_due() and not self._asked_to_stop():
                    self._validate(bar)
                ending = self._ending(trouble)
                if ending or self._save_agreed or self.manager.is_due():
                    self.manager.save(self.world, bar, must_succeed=ending is not None)
                if ending:
                    return ending
                trouble = self._update(batches, bar)

    def _ending(self, trouble: str | None) -> tuple[Status, str] | None:
        """Return how training ends here, if it does."""
        if self.state.guards.settings.overfitting == "stop":
            trouble = trouble or self._overfitting()
        if trouble:
            return "stopped", trouble
        if self._is_over() and not self._validation_is_due():
            return "finished", ""
        if not self._asked_to_stop():
            return None
        signals: list[str | None] = self.world.gather(self._stop.signal)
        return "interrupted", next(filter(None, signals))

    def _update(self, batches: Iterator[Batch], bar: Progress) -> str | None:
        """Make one update, or return why it must not be made."""
        began, step = time.perf_counter(), self.state.step
        rates = self.updates.prepare(self.length.position(step, self._seconds))
        figures = self._agree(self.updates.backward(next(batches), step))
        trouble = self.state.guards.before_update(figures["loss"], figures["grad_norm"])
        turned = self.state.guards.alignment(figures.get("alignment", math.nan))
        if turned and self.state.guards.settings.overfitting == "stop":
            trouble = trouble or turned
        elif turned:
            bar.note(f"warning: step {step}: {turned}")
        if trouble:
            return f"step {step}: {trouble}"
        self.updates.apply(step, figures["grad_norm"])
        self.state.step = step + 1
        speed = self.training.batch_size / (time.perf_counter() - began)
        self.manager.log({"kind": "train"} | figures | rates | {"images_per_second": round(speed, 1)})
        accuracy = percent(figures["accuracy"])
        bar.total = self._expected_images()
        bar.advance(self.training.batch_size, loss=figures["loss"], accuracy=accuracy)
        return None

    def _agree(self, figures: dict[str, Tensor]) -> dict[str, float]:
        """Average figures over the processes, so that all decide alike; the only wait for a GPU."""
        values = torch.stack([*figures.values()])
        saves = self.world.is_main and self.manager.is_overdue()
        elapsed = self.manager.stopwatch.seconds(self.training.clock)
        wishes = [float(self._stop.signal is not None), float(saves), elapsed]
        if self.world.size > 1:
            values = values.double()
            # Filling a tensor does not wait for a GPU, as copying to it would.
            values = self.world.mean(torch.stack([*values, *(values.new_full((), wish) for wish in wishes)]))
            wishes = []
        *numbers, stop, save, self._seconds = values.tolist() + wishes
        self._stop_agreed, self._save_agreed = stop > 0, save > 0
        return dict(zip(figures, numbers, strict=True))

    def _agree_on_time(self) -> None:
        """Average the time so far over the processes; updates do this in `_agree`."""
        self._seconds = fmean(self.world.gather(self.manager.stopwatch.seconds(self.training.clock)))

    def _is_over(self) -> bool:
        return self.length.is_over(self.state.step, self._seconds)

    def _expected_images(self) -> int:
        return self.length.expected_steps(self.state.step, self._seconds) * self.training.batch_size

    def _asked_to_stop(self) -> bool:
        return self._stop_agreed if self.world.size > 1 else self._stop.signal is not None

    def _validation_is_due(self) -> bool:
        step, last = self.state.step, self.state.last
        if not len(self.held_out) or not step or (last and last.step == step):
            return False
        period = self.validation.every * self.steps_per_epoch
        return step % period == 0 or self._is_over()

    def _validate(self, bar: Progress) -> None:
        # Running statistics of BatchNorm differ between processes; those of rank 0 are saved.
        model = self.updates.judged_model
        self.world.copy_from_main(model.buffers())

        def listen(progress: AttackProgress, _: Outcomes) -> None:
            bar.advance(0, validated=f"{progress.done}/{progress.total}")
            if self.world.size == 1 and self._stop.signal is not None:
                raise _Interrupted

        try:
            scores = validate(
                model,
                self.held_out,
                self.threat,
                self.validation,
                step=self.state.step,
                seed=self.seed,
                world=self.world,
                listener=listen,
            )
        except _Interrupted:
            return
        self._record(scores, bar)
        self._agree_on_time()

    def _record(self, scores: Scores, bar: Progress) -> None:
        self.state.record(scores, self.validation.select)
        shown = {"clean": scores.clean}
        if scores.robust is not None:
            shown["robust"] = scores.robust
        self.manager.log({"kind": "validation"} | shown)
        texts = {name: percent(share) for name, share in shown.items()}
        listed = ", ".join(f"{name} {text}" for name, text in texts.items())
        bar.note(f"epoch {round(self.manager.epoch, 2):g}: {listed}")
        bar.advance(0, **texts, validated=None)
        if overfitting := self._overfitting():
            bar.note(f"warning: {overfitting}")

    def _overfitting(self) -> str | None:
        # A training that is selected by clean accuracy may well lose robust accuracy.
        return self.state.overfitting if self.validation.select == "robust" else None


def batches_of(trainer: Trainer) -> Generator[Batch, None, None]:
    """Return the batches of a training without end, from where it stands; this process's part of each."""
    first, start = divmod(trainer.state.step, trainer.steps_per_epoch)
    for epoch in count(first):
        yield from training_batches(
            trainer.data.train,
            batch_size=trainer.training.batch_size,
            seed=trainer.seed,
            epoch=epoch,
            augmentation=trainer.augmentation,
            extra=trainer.extra,
            start=start if epoch == first else 0,
            rank=trainer.world.rank,
            world_size=trainer.world.size,
            num_workers=trainer.training.num_workers,
            pinned=trainer.updates.device.type == "cuda",
        )
