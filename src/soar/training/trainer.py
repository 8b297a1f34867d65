"""The training loop.

Read `Trainer._loop` first: validate, save, end or make one more update. A run is a pure function of its
settings, its seed and its starting weights: data order, augmentation and attacks draw counter-based random
numbers, so a run that is killed and resumed gives the same weights, bit for bit, as one that was not.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from soar.data import Augmentation, Batch, Dataset, batches_per_epoch, training_batches
from soar.errors import UserError
from soar.progress import Mode, Progress
from soar.training import checkpoints, distributed, generators
from soar.training.guards import Guards
from soar.training.lock import RunLock
from soar.training.result import FitResult, Outcome, Status
from soar.training.settings import GuardSettings, TrainingSettings, ValidationSettings, checked
from soar.training.signals import StopRequest
from soar.training.tracking import MetricsFile, Sink
from soar.training.updates import Updates
from soar.training.validation import Scores, selection_rule, validate
from soar.training.weights import fill, load_weights

if TYPE_CHECKING:
    from soar.attacks import Outcomes
    from soar.attacks import Progress as AttackProgress
    from soar.objectives import Objective


class _Interrupted(Exception):  # noqa: N818 - not an error
    """Leaves a validation when the process is asked to stop."""


class Trainer:
    """Minimise an objective by SGD, with validation, guards and checkpoints.

    Args:
        objective: holds the model and the threat; it is what data-parallel wrapping goes around
        data: `train` is learned from, `validation` selects the best checkpoint, `test` is never touched
        training: how to train
        validation: how to validate
        guards: when to stop by itself
        run: the run folder; nothing in it is ever deleted but old checkpoints
        augmentation: random changes of the training images
        seed: seed of data order, augmentation and validation
        device: such as "cpu" or "cuda"; under torchrun each process takes its own GPU
        sinks: where metrics go besides `metrics.jsonl`
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
        seed: int = 0,
        device: str = "cpu",
        sinks: Sequence[Sink] = (),
        progress: Mode = "auto",
        resume: bool = False,
    ) -> None:
        self.objective, self.data = objective, data
        self.training = checked(training, "training")
        self.validation = checked(validation, "validation")
        self.guards = Guards(checked(guards, "guards"))
        self.run, self.seed, self.resume = run, seed, resume
        self.augmentation, self.sinks, self.progress = augmentation, sinks, progress
        self.world = distributed.current()
        self.device = self.world.device(device)
        self.steps_per_epoch = batches_per_epoch(data.train, training.batch_size)
        whole = training.epochs * self.steps_per_epoch
        self.total_steps = min(whole, training.max_steps or whole)
        self.threat = objective.threat
        self.held_out = data.validation.first(validation.examples or len(data.validation))
        self.rule = selection_rule(self.held_out, self.threat, validation)
        resumes = resume and bool(checkpoints.available(run))
        if training.start_from is not None and not resumes:
            load_weights(objective.model, Path(training.start_from), "training.start_from")
        self.updates = Updates(
            objective, self.training, self.steps_per_epoch, device=self.device, world=self.world
        )
        self.step = 0
        self.best: Scores | None = None
        self.last: Scores | None = None
        self.metrics: MetricsFile | None = None
        self._stop, self._lock = StopRequest(), RunLock(run)
        self._stop_agreed = self._save_agreed = False
        self._saved: tuple[int, Scores | None] = (0, None)
        self._saved_best: Scores | None = None
        self._saved_at = self._began = time.monotonic()

    def fit(self) -> FitResult:
        """Train until the end, a guard's verdict or a signal.

        Raises:
            UserError: when the run folder holds a training and `resume` is not set, when another process
                trains there, when its checkpoints belong to other settings, or when the last one cannot
                be written
        """
        with distributed.joined(self.device.type) as self.world, self._stop:
            try:
                with generators.seeded(self.seed, self.world.rank, self.device):
                    status, reason = self._train()
            finally:
                self.objective.threat = self.threat
                for sink in self._sinks():
                    sink.close()
                self._lock.release()
                self.updates.work_alone()
        best = self.run / checkpoints.FOLDER / self._best_name()
        seconds = time.monotonic() - self._began
        if self.world.is_main and status != "interrupted":
            Outcome(status, reason, round(seconds, 1)).save(self.run)
        return FitResult(
            status,
            reason,
            steps=self.step,
            best=best if best.exists() else None,
            best_scores=self.best,
            last_scores=self.last,
            seconds=seconds,
        )

    def _train(self) -> tuple[Status, str]:
        self._open()
        done, total = (n * self.training.batch_size for n in (self.step, self.total_steps))
        mode: Mode = self.progress if self.world.is_main else "quiet"
        with Progress(total, "training", mode, done=done) as bar:
            bar.note(self.rule)
            return self._loop(bar)

    def _loop(self, bar: Progress) -> tuple[Status, str]:
        trouble: str | None = None
        with closing(self._batches()) as batches:
            while True:
                if self._validation_is_due() and not self._asked_to_stop():
                    self._validate(bar)
                ending = self._ending(trouble)
                if ending or self._save_is_due():
                    self._save(bar, must_succeed=ending is not None)
                if ending:
                    return ending
                trouble = self._update(batches, bar)

    def _ending(self, trouble: str | None) -> tuple[Status, str] | None:
        """Say how training ends here, if it does."""
        if self.guards.settings.overfitting == "stop":
            trouble = trouble or self.guards.overfitting
        if trouble:
            return "stopped", trouble
        if self.step >= self.total_steps and not self._validation_is_due():
            return "finished", ""
        if not self._asked_to_stop():
            return None
        signals: list[str | None] = self.world.gather(self._stop.signal)
        return "interrupted", next(filter(None, signals))

    def _update(self, batches: Iterator[Batch], bar: Progress) -> str | None:
        """Make one update, or none and say why not."""
        began = time.perf_counter()
        rates = self.updates.prepare(self.step)
        figures = self._agree(self.updates.backward(next(batches), self.step))
        trouble = self.guards.before_update(figures["loss"], figures["grad_norm"])
        if trouble:
            return f"step {self.step}: {trouble}"
        self.updates.apply(self.step, figures["grad_norm"])
        self.step += 1
        speed = self.training.batch_size / (time.perf_counter() - began)
        self._log({"kind": "train"} | figures | rates | {"images_per_second": round(speed, 1)})
        accuracy = f"{figures['accuracy']:.1%}"
        bar.advance(self.training.batch_size, loss=figures["loss"], accuracy=accuracy)
        return None

    def _agree(self, figures: dict[str, Tensor]) -> dict[str, float]:
        """Average figures over the processes, so that all decide alike; the only wait for a GPU."""
        values = torch.stack([*figures.values()]).double()
        wishes = [float(self._stop.signal is not None), float(self._save_is_overdue())]
        if self.world.size > 1:
            values = self.world.mean(torch.cat([values, values.new_tensor(wishes)]))
            *numbers, wishes[0], wishes[1] = values.tolist()
        else:
            numbers = values.tolist()
        self._stop_agreed, self._save_agreed = wishes[0] > 0, wishes[1] > 0
        return dict(zip(figures, numbers, strict=True))

    def _asked_to_stop(self) -> bool:
        return self._stop_agreed if self.world.size > 1 else self._stop.signal is not None

    def _validation_is_due(self) -> bool:
        if not len(self.held_out) or not self.step or (self.last and self.last.step == self.step):
            return False
        period = self.validation.every * self.steps_per_epoch
        return self.step % period == 0 or self.step >= self.total_steps

    def _validate(self, bar: Progress) -> None:
        # Running statistics of BatchNorm are each process's own; what is saved are those of rank 0.
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
                step=self.step,
                seed=self.seed,
                world=self.world,
                listener=listen,
            )
        except _Interrupted:
            return
        self.last = scores
        if scores.beats(self.best, self.validation.select):
            self.best = scores
        shown = {"clean": scores.clean}
        if scores.robust is not None:
            shown["robust"] = scores.robust
            if self.validation.select == "robust":
                # A training that is judged by clean accuracy may well lose the robust one.
                self.guards.after_validation(scores.robust)
        self._log({"kind": "validation"} | shown)
        texts = {name: f"{share:.1%}" for name, share in shown.items()}
        bar.note(f"epoch {round(self._epoch(), 2):g}: " + ", ".join(f"{k} {v}" for k, v in texts.items()))
        bar.advance(0, **texts, validated=None)
        if self.guards.overfitting:
            bar.note(f"warning: {self.guards.overfitting}")

    def _batches(self) -> Generator[Batch, None, None]:
        first, start = divmod(self.step, self.steps_per_epoch)
        for epoch in count(first):
            yield from training_batches(
                self.data.train,
                batch_size=self.training.batch_size,
                seed=self.seed,
                epoch=epoch,
                augmentation=self.augmentation,
                start=start if epoch == first else 0,
                rank=self.world.rank,
                world_size=self.world.size,
                workers=self.training.workers,
            )

    def _save_is_overdue(self) -> bool:
        minutes = (time.monotonic() - self._saved_at) / 60
        return self.world.is_main and minutes >= self.training.save_minutes

    def _save_is_due(self) -> bool:
        if self.best != self._saved_best:
            return True
        every = self.training.save_steps
        return self.step > 0 and (self._save_agreed or (every is not None and self.step % every == 0))

    def _save(self, bar: Progress, *, must_succeed: bool) -> None:
        """Write a checkpoint; a full disk in mid-training is told, but does not end the training."""
        if (self.step, self.last) == self._saved:
            return
        all_generators = self.world.gather(generators.states(self.device))
        problem: str | None = None
        if self.world.is_main:
            try:
                self._write(all_generators)
            except OSError as error:
                problem = f"cannot save a checkpoint in {self.run}: {error}"
        problem = self.world.from_main(problem)
        if problem and must_succeed:
            raise UserError(f"{problem}; earlier checkpoints are untouched")
        if problem:
            bar.note(f"warning: {problem}; training goes on")
            self.best = self._saved_best
        else:
            self._saved, self._saved_best = (self.step, self.last), self.best
        self._save_agreed, self._saved_at = False, time.monotonic()

    def _write(self, all_generators: list[dict[str, Tensor]]) -> None:
        assert self.metrics is not None
        self.metrics.sync()
        average = self.updates.average
        epoch, batch = divmod(self.step, self.steps_per_epoch)
        snapshot = checkpoints.Snapshot(
            model=self.objective.model.state_dict(),
            ema=average.model.state_dict() if average else None,
            trainer=self.updates.state() | {"generators": all_generators},
            state={
                "step": self.step,
                "data": {"epoch": epoch, "batch": batch} | self._data_identity(),
                "selection": self.rule,
                "best": asdict(self.best) if self.best else None,
                "last": asdict(self.last) if self.last else None,
                "guards": self.guards.state(),
                "metrics_rows": self.metrics.rows,
                "seconds": time.monotonic() - self._began,
            },
        )
        checkpoints.save(self.run, snapshot)
        checkpoints.mark_best(self.run, self._best_name())
        checkpoints.prune(self.run, keep=self._best_name())

    def _open(self) -> None:
        """Prepare the run folder, and go back to where an earlier session stopped."""
        self.world.on_main(self._lock.acquire)
        snapshot = self.world.on_main(lambda: checkpoints.open_run(self.run, resume=self.resume))
        if snapshot is not None:
            self._restore(snapshot)
        rows = snapshot.state["metrics_rows"] if snapshot else 0
        self.world.on_main(lambda: self._open_metrics(rows))
        self.objective.train()
        self.updates.share_among(self.world)

    def _open_metrics(self, rows: int) -> None:
        self.run.mkdir(parents=True, exist_ok=True)
        self.metrics = MetricsFile(self.run, rows=rows)

    def _restore(self, snapshot: checkpoints.Snapshot) -> None:
        state = snapshot.state
        for name, now in self._data_identity().items():
            if state["data"][name] != now:
                raise UserError(
                    f"{self.run}: the run has {name} {state['data'][name]}, got {now}; "
                    "a resumed run must keep it"
                )
        fill(self.objective.model, snapshot.model, f"the checkpoint in {self.run}")
        if self.updates.average and snapshot.ema is not None:
            fill(self.updates.average.model, snapshot.ema, f"the checkpoint in {self.run}")
        self.updates.restore(snapshot.trainer)
        of_all = snapshot.trainer["generators"]
        if len(of_all) == self.world.size:
            generators.restore(of_all[self.world.rank], self.device)
        self.step = state["step"]
        self.best = Scores(**state["best"]) if state["best"] else None
        self.last = Scores(**state["last"]) if state["last"] else None
        self.guards = Guards.restore(self.guards.settings, state["guards"])
        self._saved, self._saved_best = (self.step, self.last), self.best
        self._began -= state["seconds"]

    def _data_identity(self) -> dict[str, int]:
        """Give what decides which example is in which batch."""
        return {
            "seed": self.seed,
            "batch_size": self.training.batch_size,
            "training examples": len(self.data.train),
        }

    def _best_name(self) -> str:
        return checkpoints.name_of(self.best.step if self.best else self.step)

    def _epoch(self) -> float:
        return self.step / self.steps_per_epoch

    def _sinks(self) -> list[Sink]:
        return [self.metrics, *self.sinks] if self.metrics is not None else []

    def _log(self, row: dict[str, float | str]) -> None:
        seconds = round(time.monotonic() - self._began, 3)
        for sink in self._sinks():
            sink.log(self.step, {"epoch": self._epoch()} | row | {"seconds": seconds})
