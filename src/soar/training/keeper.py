"""The run folder of a training: who may write there, its metrics, and its checkpoints."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

from torch import Tensor

from soar import checkpoints
from soar.distributed import World
from soar.errors import UserError
from soar.locks import run_lock
from soar.progress import Progress
from soar.training import generators
from soar.training.standing import Standing
from soar.training.tracking import MetricsFile, Sink
from soar.training.updates import Updates
from soar.training.validation import Scores
from soar.weights import fill


class Keeper:
    """Write down where a training stands, and go back to it.

    Args:
        run: the run folder; nothing in it is ever deleted but old checkpoints
        standing: what is written, and set when a run is resumed
        updates: holds the weights and the optimizer
        identity: what decides which example is in which batch; a resumed run must keep it
        rule: which checkpoint counts as the best, in words
        sinks: where metrics go besides `metrics.jsonl`
    """

    def __init__(
        self,
        run: Path,
        standing: Standing,
        updates: Updates,
        *,
        identity: Mapping[str, int],
        rule: str,
        sinks: Sequence[Sink] = (),
    ) -> None:
        self.run, self.standing, self.updates = run, standing, updates
        self.identity, self.rule, self.sinks = identity, rule, sinks
        self.metrics: MetricsFile | None = None
        self._held = ExitStack()
        self._saved: tuple[int, Scores | None] = (0, None)
        self._saved_best: Scores | None = None
        self._saved_at = self._began = time.monotonic()

    @property
    def seconds(self) -> float:
        """How long the training has taken, in all its sessions."""
        return time.monotonic() - self._began

    @property
    def epoch(self) -> float:
        """How often every example has been seen."""
        return self.standing.step / self.updates.steps_per_epoch

    @property
    def best(self) -> Path:
        """The folder of the best checkpoint, whether it has been written or not."""
        best = self.standing.best
        return self.run / checkpoints.FOLDER / checkpoints.name_of(best.step if best else self.standing.step)

    def open(self, world: World, *, resume: bool) -> None:
        """Prepare the folder, and go back to where an earlier session stopped.

        Raises:
            UserError: when the folder holds a training and `resume` is not set, when another process trains
                there, or when its checkpoints belong to other settings
        """
        world.on_main(lambda: self._held.enter_context(run_lock(self.run)))
        snapshot = world.on_main(lambda: checkpoints.open_run(self.run, resume=resume))
        if snapshot is not None:
            self._restore(snapshot, world)
        rows = snapshot.state["metrics_rows"] if snapshot else 0
        world.on_main(lambda: self._open_files(rows))

    def log(self, row: dict[str, float | str]) -> None:
        """Write a row of figures to every sink."""
        whole = {"epoch": self.epoch} | row | {"seconds": round(self.seconds, 3)}
        for sink in self._all_sinks():
            try:
                sink.log(self.standing.step, whole)
            except OSError as error:
                warnings.warn(f"{type(sink).__name__} takes no more metrics ({error})", stacklevel=2)
                self.sinks = [other for other in self.sinks if other is not sink]

    def is_overdue(self) -> bool:
        """Whether the newest checkpoint is older than the settings allow."""
        return time.monotonic() - self._saved_at >= 60 * self.updates.settings.save_minutes

    def is_due(self) -> bool:
        """Whether a checkpoint belongs here, by its validation or its step."""
        every, step = self.updates.settings.save_steps, self.standing.step
        return self.standing.best != self._saved_best or (
            every is not None and step > 0 and step % every == 0
        )

    def save(self, world: World, bar: Progress, *, must_succeed: bool) -> None:
        """Write a checkpoint; a full disk in mid-training is told, but does not end the training.

        Raises:
            UserError: if it cannot be written and must be
        """
        standing = self.standing
        if (standing.step, standing.last) == self._saved:
            return
        all_generators = world.gather(generators.states(self.updates.device))
        problem: str | None = None
        if world.is_main:
            try:
                self._write(all_generators)
            except OSError as error:
                problem = f"cannot save a checkpoint in {self.run} ({error})"
        problem = world.from_main(problem)
        if problem and must_succeed:
            raise UserError(f"{problem}; earlier checkpoints are untouched")
        if problem:
            bar.note(f"warning: {problem}; training goes on")
            standing.best = self._saved_best
        else:
            self._saved, self._saved_best = (standing.step, standing.last), standing.best
        self._saved_at = time.monotonic()

    def close(self) -> None:
        """Take no more metrics, and let others train here."""
        for sink in self._all_sinks():
            sink.close()
        self._held.close()

    def _write(self, all_generators: list[dict[str, Tensor]]) -> None:
        assert self.metrics is not None
        self.metrics.sync()
        average = self.updates.average
        epoch, batch = divmod(self.standing.step, self.updates.steps_per_epoch)
        snapshot = checkpoints.Snapshot(
            model=self.updates.objective.model.state_dict(),
            ema=average.model.state_dict() if average else None,
            trainer=self.updates.state() | {"generators": all_generators},
            state=self.standing.state()
            | {
                "data": {"epoch": epoch, "batch": batch} | dict(self.identity),
                "selection": self.rule,
                "metrics_rows": self.metrics.rows,
                "seconds": self.seconds,
            },
        )
        checkpoints.save(self.run, snapshot)
        # The checkpoint is there and says itself which one is the best; tidying is tried again next time.
        with suppress(OSError):
            self._tidy()

    def _tidy(self) -> None:
        checkpoints.mark_best(self.run, self.best.name)
        checkpoints.prune(self.run, keep=self.best.name)

    def _open_files(self, rows: int) -> None:
        if self.best.exists():
            # The process that wrote the checkpoint may have been killed before it came to this.
            self._tidy()
        self.metrics = MetricsFile(self.run, rows=rows)

    def _restore(self, snapshot: checkpoints.Snapshot, world: World) -> None:
        state, where = snapshot.state, f"the checkpoint in {self.run}"
        for name, now in self.identity.items():
            if state["data"][name] != now:
                raise UserError(
                    f"{self.run}: the run has {name} {state['data'][name]}, got {now}; "
                    "a resumed run must keep it"
                )
        fill(self.updates.objective.model, snapshot.model, where)
        if self.updates.average and snapshot.ema is not None:
            fill(self.updates.average.model, snapshot.ema, where)
        self.updates.restore(snapshot.trainer)
        of_all = snapshot.trainer["generators"]
        if len(of_all) == world.size:
            generators.restore(of_all[world.rank], self.updates.device)
        self.standing.restore(state)
        self._saved, self._saved_best = (self.standing.step, self.standing.last), self.standing.best
        self._began -= state["seconds"]

    def _all_sinks(self) -> list[Sink]:
        return [self.metrics, *self.sinks] if self.metrics is not None else []
